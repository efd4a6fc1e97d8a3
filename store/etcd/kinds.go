package etcd

import (
	"context"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Kinds returns how many records there are of each kind, for the command tend: a program knows
// its kinds. It takes two reads for each kind, whatever it holds.
func (b *backend) Kinds(ctx context.Context) (map[string]int, error) {
	counts := map[string]int{}
	all := b.opts.Prefix + "/"
	for from := all; ; {
		first, err := b.rangeOf(ctx, from, clientv3.GetPrefixRangeEnd(all), 0, 1, true)
		if err != nil {
			return nil, b.readFailed(ctx, err)
		}
		if len(first.Kvs) == 0 {
			return counts, nil
		}
		kind, _, _ := strings.Cut(string(first.Kvs[0].Key[len(all):]), "/")
		of := all + kind + "/"
		n, err := b.count(ctx, of)
		if err != nil {
			return nil, b.readFailed(ctx, err)
		}
		counts[kind] = n
		from = clientv3.GetPrefixRangeEnd(of)
	}
}

func (b *backend) count(ctx context.Context, prefix string) (int, error) {
	ctx, cancel, err := b.request(ctx)
	if err != nil {
		return 0, err
	}
	defer cancel()
	resp, err := b.client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return int(resp.Count), nil
}
