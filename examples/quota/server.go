package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tendhq/tend/examples/fleet"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/reconcile/quota"
)

// What the cloud grants to all servers together.
const (
	perSecond = 100
	burst     = 10
)

// callLine begins the line that a server prints for a call; the time in nanoseconds follows.
const callLine = "call "

// serve is one server, which makes one call after another as the quota allows. It prints a line with the time for each call.
func serve(ctx context.Context, o options, out io.Writer) error {
	return fleet.Serve(ctx, o, out, func(p *program.Program, lo *lease.Options) {
		members, err := lease.NewMembers(p.Backend(), "quota", lo)
		p.Check(err)
		quotas, err := quota.NewSet(&quota.Options{
			Members: members, Backend: p.Backend(), Logger: p.Manager.Logger,
			Limits: func(quota.Name) (quota.Limits, error) {
				return quota.Limits{Read: quota.Rate{PerSecond: perSecond, Burst: burst}, Judge: quota.Judge}, nil
			},
		})
		if p.Use(quotas, err); err != nil {
			return
		}
		account, err := quotas.Get(quota.Name{Account: "shop", API: "dns"})
		p.Check(err)
		p.Use(fleet.Runner(func(ctx context.Context) error {
			for ctx.Err() == nil {
				err := account.Do(ctx, quota.Read, func(context.Context) error {
					_, err := fmt.Fprintf(out, "%s%d\n", callLine, time.Now().UnixNano())
					return err
				})
				if errors.Is(err, quota.ErrNoBudget) { // not one of those that share yet
					select {
					case <-ctx.Done():
					case <-time.After(o.TTL / 10):
					}
				} else if err != nil && ctx.Err() == nil {
					return err
				}
			}
			return nil
		}), nil)
	})
}
