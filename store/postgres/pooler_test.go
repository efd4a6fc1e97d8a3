//go:build unix

package postgres_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/postgres"
	"github.com/tendhq/tend/store/storetest"
	"github.com/tendhq/tend/store/storetest/campaign"
)

// startPooler starts pgbouncer in transaction mode before the server on a port, with fewer
// sessions than its clients have connections, and returns a connection string through it.
func startPooler(t testing.TB, server int) string {
	t.Helper()
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		path = "/usr/sbin/pgbouncer"
	}
	if !exists(path) {
		if os.Getenv(need) != "" {
			t.Fatal("there is no pgbouncer on this machine (apt-get install pgbouncer)")
		}
		t.Skip("there is no pgbouncer on this machine")
	}
	dir, err := newDir()
	if err != nil {
		t.Fatal(err)
	}
	port := freePort()
	ini := fmt.Sprintf(`[databases]
postgres = host=127.0.0.1 port=%d user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
auth_type = any
unix_socket_dir =
pool_mode = transaction
default_pool_size = 4
max_client_conn = 500
server_reset_query = DISCARD ALL
server_reset_query_always = 1
`, server, port)
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(ini), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, file)
	credential, err := unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Setpgid: true, Credential: credential}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		os.RemoveAll(dir)
	})
	// This pgbouncer (1.18) keeps no prepared statements; newer ones do.
	dsn := fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable&default_query_exec_mode=exec", port)
	waitFor(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, dsn)
		if err != nil {
			return false
		}
		return conn.Close(ctx) == nil
	})
	return dsn
}

// Through a pooler in transaction mode, any two statements may be of two sessions, each
// cleared of what the one before had set, and there are no notifications: watches live by
// polling alone.
func TestContractThroughAPoolerAndWithoutNotifications(t *testing.T) {
	dsn := startPooler(t, shared.port)
	storetest.Run(t, func(t testing.TB) store.Backend {
		return openAt(t, dsn, postgres.Options{NoNotify: true})
	}, forget)
}

// The server commits, and the connection between it and the pooler breaks: the error that the
// pooler sends does not say that nothing was done.
//
// promise S1. Negative control: the mutant "a pooler's error is taken for a rollback".
func TestLostAnswerBehindAPoolerIsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	p := campaign.NewProxy(t, shared.addr())
	_, port, err := net.SplitHostPort(p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	server, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	loseAnswer(t, p, openAt(t, startPooler(t, server), postgres.Options{NoNotify: true}))
}
