package etcd

import (
	"context"
	"fmt"
	"iter"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/tendhq/tend/store"
)

// ListSlots implements store.SlotReader. Of up to half of the slots it reads the records, and of the
// others the keys. With more slots it reads all records.
func (b *backend) ListSlots(ctx context.Context, kind string, slots store.SlotSet, o store.ListOptions) (store.Page, error) {
	if slots.Len() <= store.Slots/2 {
		return b.list(ctx, kind, &slots, o)
	}
	return store.ListSlots(ctx, struct{ store.Backend }{b}, kind, slots, o)
}

// WatchSlots implements store.SlotReader. The server sends the changes of all slots; those that
// no watch of this process asks for are dropped before they are decoded, once for all watches
// of the kind.
func (b *backend) WatchSlots(ctx context.Context, kind string, slots store.SlotSet, after store.Revision) iter.Seq2[store.Batch, error] {
	return store.FilterSlots(b.watch(ctx, kind, slots, after), slots)
}

// slotCodec decodes the responses of a hub's stream. What is not in the hub's slots it neither
// copies nor decodes: see filter.
type slotCodec struct {
	encoding.CodecV2 // gRPC's own
	hub              *hub
	raw              []byte // scratch: a stream is read by one goroutine
}

// longestScratch is the most bytes that a slotCodec keeps.
const longestScratch = 1 << 20

// Unmarshal implements encoding.CodecV2.
func (c *slotCodec) Unmarshal(data mem.BufferSlice, v any) error {
	resp, ok := v.(*pb.WatchResponse)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	// gRPC's own codec takes a buffer of up to 1 MB for this, which it clears each time.
	c.raw = slices.Grow(c.raw[:0], data.Len())[:data.Len()]
	data.CopyTo(c.raw)
	raw := c.raw
	if cap(c.raw) > longestScratch {
		c.raw = nil
	}
	if slots := c.hub.filter.Load(); slots != nil {
		kept, err := filter(raw, func(path []byte) bool {
			return slots.HasKey(c.hub.b.keyOf(c.hub.kind, path))
		})
		if err != nil {
			return fmt.Errorf("etcd: a response of a watch: %w", err)
		}
		raw = kept
	}
	return proto.Unmarshal(raw, resp)
}

// Fields of the messages, by their numbers in etcd's rpc.proto and kv.proto.
const (
	responseEvents = 11
	eventKV        = 2
	kvKey          = 1
	kvModified     = 3
	kvVersion      = 4
)

// skipped stands for events that follow one another and are dropped. In a response it is an
// event without a key, which etcd never sends, at the revision of the last of them: version
// has their number.
type skipped struct{ events, revision uint64 }

func (s skipped) append(response []byte) []byte {
	kv := protowire.AppendVarint(protowire.AppendTag(nil, kvModified, protowire.VarintType), s.revision)
	kv = protowire.AppendVarint(protowire.AppendTag(kv, kvVersion, protowire.VarintType), s.events)
	event := protowire.AppendBytes(protowire.AppendTag(nil, eventKV, protowire.BytesType), kv)
	return protowire.AppendBytes(protowire.AppendTag(response, responseEvents, protowire.BytesType), event)
}

// filter returns an encoded WatchResponse without the events of keys that are not to be kept;
// see skipped. It returns raw itself if all are.
func filter(raw []byte, keep func(key []byte) bool) ([]byte, error) {
	var out []byte
	var gone skipped
	filtered := false
	err := eachField(raw, func(at int, num protowire.Number, value, field []byte) error {
		if num == responseEvents && value != nil {
			key, revision, err := peek(value)
			if err != nil {
				return err
			}
			if !keep(key) {
				if !filtered {
					filtered, out = true, append(make([]byte, 0, len(raw)/4), raw[:at]...)
				}
				gone = skipped{gone.events + 1, revision}
				return nil
			}
		}
		if !filtered {
			return nil
		}
		if num == responseEvents && gone.events > 0 {
			out, gone = gone.append(out), skipped{}
		}
		out = append(out, field...)
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case !filtered:
		return raw, nil
	case gone.events > 0:
		out = gone.append(out)
	}
	return out, nil
}

// peek reads the key and the revision of an encoded Event.
func peek(event []byte) (key []byte, revision uint64, err error) {
	err = eachField(event, func(_ int, num protowire.Number, kv, _ []byte) error {
		if num != eventKV || kv == nil {
			return nil
		}
		return eachField(kv, func(_ int, of protowire.Number, value, field []byte) error {
			switch of {
			case kvKey:
				key = value
			case kvModified:
				_, _, n := protowire.ConsumeTag(field)
				revision, _ = protowire.ConsumeVarint(field[n:])
			}
			return nil
		})
	})
	return key, revision, err
}

// eachField calls f for each field of an encoded message, with where it begins. value is nil
// unless the field is of bytes.
func eachField(message []byte, f func(at int, num protowire.Number, value, field []byte) error) error {
	for at := 0; at < len(message); {
		num, kind, n := protowire.ConsumeTag(message[at:])
		if n < 0 {
			return protowire.ParseError(n)
		}
		m := protowire.ConsumeFieldValue(num, kind, message[at+n:])
		if m < 0 {
			return protowire.ParseError(m)
		}
		var value []byte
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(message[at+n:])
		}
		if err := f(at, num, value, message[at:at+n+m]); err != nil {
			return err
		}
		at += n + m
	}
	return nil
}
