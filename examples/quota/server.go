package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/tendhq/tend/examples/fleet"
	"github.com/tendhq/tend/reconcile/lease"
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
	backend, _, err := fleet.Open[struct{}, struct{}](ctx, o.Place, "account")
	if err != nil {
		return err
	}
	defer backend.Close()
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})) // what fails; the show has its own lines
	members, err := lease.NewMembers(backend, "quota", &lease.Options{TTL: o.TTL, Server: o.Server, Logger: logger})
	if err != nil {
		return err
	}
	quotas, err := quota.NewSet(&quota.Options{
		Members: members, Backend: backend, Logger: logger,
		Limits: func(quota.Name) (quota.Limits, error) {
			return quota.Limits{Read: quota.Rate{PerSecond: perSecond, Burst: burst}, Judge: quota.Judge}, nil
		},
	})
	if err != nil {
		return err
	}
	account, err := quotas.Get(quota.Name{Account: "shop", API: "dns"})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	shared := make(chan error, 1)
	go func() { // ends with ctx, or when this server cannot share the quota
		defer stop()
		shared <- quotas.Run(ctx)
	}()
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
			continue
		}
		if err != nil && ctx.Err() == nil {
			stop()
			return errors.Join(err, <-shared)
		}
	}
	return <-shared
}
