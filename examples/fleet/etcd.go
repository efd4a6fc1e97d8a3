package fleet

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// startEtcd starts a single member on ports of its own choice, with its data in
// dir.
func startEtcd(dir string) (*embed.Etcd, error) {
	free, err := url.Parse("http://127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.LogLevel, cfg.LogOutputs = "fatal", []string{os.DevNull}
	cfg.UnsafeNoFsync = true // the data is thrown away
	cfg.TickMs, cfg.ElectionMs = 50, 500
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*free}, []url.URL{*free}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*free}, []url.URL{*free}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("starting etcd: %w", err)
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, nil
	case err = <-e.Err():
	case <-time.After(2 * time.Minute):
		err = errors.New("it was not ready in two minutes")
	}
	e.Close()
	return nil, fmt.Errorf("starting etcd: %w", err)
}
