//go:build unix

package postgres_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/postgres"
	"github.com/tendhq/tend/store/storetest"
)

// startPooler starts pgbouncer in transaction mode before the shared server, with fewer
// sessions than its clients have connections, and returns a connection string through it.
func startPooler(t testing.TB) string {
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
`, shared.port, port)
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
	dsn := startPooler(t)
	storetest.Run(t, func(t testing.TB) store.Backend {
		return openAt(t, dsn, postgres.Options{NoNotify: true})
	}, forget)
}
