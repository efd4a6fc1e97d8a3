//go:build unix

package etcd_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/etcd"
)

// logText is a log that several goroutines write.
type logText struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A cluster that is never compacted and nears its quota is a warning in the log and in Health while
// it serves, and until it is compacted.
//
// promise S7
func TestClusterThatIsNeverCompactedWarnsBeforeItIsFull(t *testing.T) {
	t.Parallel()
	const quota = 32 << 20
	e := own(t, "http", func(cfg *embed.Config) { cfg.QuotaBackendBytes = quota })
	var log logText
	o := (&etcd.Options{Prefix: "/tend"}).SetFirstLook(20 * time.Millisecond).SetLogger(slog.New(slog.NewTextHandler(&log, nil)))
	b := openAt(t, endpoint(e), *o)
	value := bytes.Repeat([]byte("x"), 64<<10)
	for written := 0; b.Health() == nil; written += len(value) {
		if written > quota*27/32 { // with what etcd adds it is less than the quota, and enough: wait for the next look
			waitFor(t, func() bool { return b.Health() != nil })
			break
		}
		if err := putBytes(t, b, "one", value); err != nil { // one object, in many versions
			t.Fatalf("after %d bytes of a quota of %d: %v, and Health had not warned", written, quota, err)
		}
	}
	err := b.Health()
	var ill *store.UnavailableError
	if errors.As(err, &ill) || !strings.Contains(err.Error(), "never compacted") || !strings.Contains(err.Error(), "32 MiB of its quota") || !strings.Contains(err.Error(), endpoint(e)) {
		t.Errorf("Health is %v, want a warning that names the place, its quota and the cure", err)
	}
	if err := putBytes(t, b, "one", nil); err != nil {
		t.Errorf("while it warns a write fails: %v", err)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint(e)}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	at, err := c.Get(t.Context(), "/")
	if err == nil {
		_, err = c.Compact(t.Context(), at.Header.Revision, clientv3.WithCompactPhysical())
	}
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return b.Health() == nil && strings.Contains(log.String(), "level=INFO") })
	if text := log.String(); strings.Count(text, "\n") != 2 || strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, "never compacted") {
		t.Errorf("the log has, and not one line for the begin and one for the end:\n%s", text)
	}
}
