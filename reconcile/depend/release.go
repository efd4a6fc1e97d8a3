package depend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/internal/ofobjects"
	"github.com/tendhq/tend/store"
)

// releaser removes the finalizers of needed objects in deletion that no object of the
// users' kind holds. The count of holds that the source keeps may be late, so it only
// spares lists: what counts is one list of the users' store, made after the deletion was
// seen. A user that takes a hold writes it before it reads the needed object, so either
// the list has the hold, or the user sees the deletion.
type releaser[S, T any] struct{ t *Tracker[S, T] }

const (
	// releaseBatch is how many objects one list of the users serves.
	releaseBatch = 1000
	// releaseAgain is how long an object waits whose holds are not the ones that the
	// source knows of.
	releaseAgain = 10 * time.Second
)

// Its keys name the objects as in a request, so that a program has the controller's code once.
func (t *Tracker[S, T]) newReleaser() (*reconcile.Controller[reconcile.Request], error) {
	return ofobjects.Batches(t.kind+" releases", &releaser[S, T]{t}, &reconcile.Options[reconcile.Request]{
		Workers: 1, Batch: releaseBatch, StopTimeout: -1, Logger: t.o.Logger,
	})
}

// ReconcileBatch implements reconcile.BatchReconciler.
func (r *releaser[S, T]) ReconcileBatch(ctx context.Context, keys []reconcile.Request) []reconcile.Outcome {
	out, refs := make([]reconcile.Outcome, len(keys)), make([]Ref, len(keys))
	var free []int
	uids := make([]string, len(refs))
	for i, key := range keys {
		ref := refOf(key)
		refs[i] = ref
		if uids[i] = r.t.mayRelease(ref); uids[i] != "" {
			free = append(free, i)
		}
	}
	if len(free) == 0 {
		return out
	}
	held, err := r.t.listHolds(ctx)
	for _, i := range free {
		switch _, is := held[refs[i]]; {
		case err != nil:
			out[i].Err = err
		case is:
			out[i].Result.RequeueAfter = releaseAgain
		default:
			out[i].Err = r.t.release(ctx, refs[i], uids[i])
		}
	}
	return out
}

// request is the releaser's key for an object, and refOf the way back.
func request(r Ref) reconcile.Request {
	return reconcile.Request{Namespace: r.Kind, Name: r.Key.String()}
}

func refOf(key reconcile.Request) Ref {
	k, _ := store.ParseKey(key.Name) // as Key.String wrote it
	return Ref{key.Namespace, k}
}

// mayRelease is the uid of an object that carries the finalizer in deletion, and that no
// user is known here to hold. Otherwise it is empty, and the source tells when that changes.
func (t *Tracker[S, T]) mayRelease(ref Ref) (uid string) {
	t.mu.Lock()
	n := t.held[ref]
	t.mu.Unlock()
	for _, k := range t.needs {
		if n == 0 && k.kind == ref.Kind && uid == "" {
			uid = k.leaving(t.finalizer, ref.Key)
		}
	}
	return uid
}

// listHolds is everything that the objects in the users' store hold.
func (t *Tracker[S, T]) listHolds(ctx context.Context) (map[Ref]struct{}, error) {
	s, held := t.users.Store(), make(map[Ref]struct{})
	for o := (store.ListOptions{}); ; {
		page, err := s.Backend().List(ctx, s.Kind(), o)
		if err != nil {
			return nil, fmt.Errorf("depend: what %s objects hold: %w", t.kind, err)
		}
		for _, record := range page.Records {
			o, err := s.Decode(record)
			if err != nil {
				return nil, fmt.Errorf("depend: what a %s object holds: %w", t.kind, err)
			}
			h, err := readHolds(&o.Meta)
			if err != nil {
				return nil, err
			}
			for _, x := range h {
				held[x.ref] = struct{}{}
			}
		}
		if page.Cursor == "" {
			return held, nil
		}
		o.Cursor = page.Cursor
	}
}

func (t *Tracker[S, T]) release(ctx context.Context, ref Ref, uid string) error {
	for _, k := range t.needs {
		if k.kind != ref.Kind {
			continue
		}
		if err := k.release(ctx, t.finalizer, ref.Key, uid); err != nil {
			return err
		}
		t.log().LogAttrs(ctx, slog.LevelDebug, "depend: nothing uses an object in deletion any more", slog.String("object", ref.String()), slog.String("users", t.kind))
		return nil
	}
	return errors.New("depend: " + ref.String() + " is of no kind that is needed")
}

func (t *Tracker[S, T]) log() *slog.Logger {
	if t.o.Logger != nil {
		return t.o.Logger
	}
	return slog.Default()
}
