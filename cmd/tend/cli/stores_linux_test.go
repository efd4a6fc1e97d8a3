package cli_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tendhq/tend/cmd/tend/cli"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/etcd"
	"github.com/tendhq/tend/store/objects"
	"github.com/tendhq/tend/store/postgres"
)

func TestCommandsOnAStoreInEtcd(t *testing.T) {
	endpoint := startEtcd(t)
	b := must(etcd.New(clientv3.Config{Endpoints: []string{endpoint}}, &etcd.Options{Prefix: "/shop"}))
	defer b.Close()
	mendsAStore(t, newDisks(b), "etcd:"+endpoint+"/shop")
	c := &tend{t: t, env: map[string]string{"TEND_STORE": "etcd:" + endpoint + "/another"}}
	c.run(cli.NotFound, "", "get", "disk", "data") // the prefix is a part of the address
}

func TestCommandsOnAStoreInPostgreSQL(t *testing.T) {
	dsn := startPostgres(t)
	b := must(postgres.Open(t.Context(), dsn, nil))
	defer b.Close()
	mendsAStore(t, newDisks(b), "postgres:"+dsn)
}

// mendsAStore runs the plain command, and that of a host, on a store that a service has
// written to.
func mendsAStore(t *testing.T, d *disks, address string) {
	ctx := t.Context()
	stored := must(d.Create(ctx, &disk{Meta: store.Meta{Namespace: "prod", Name: "data", Finalizers: []string{"cloud.example/disk"}}, Spec: spec{10, "hunter2"}}))
	now := func() *disk { return must(d.Get(ctx, stored.Key())) }
	c := &tend{t: t, env: map[string]string{"TEND_STORE": address}}
	wantAll(t, c.run(cli.Done, "", "get", "disk"), "prod/data")
	wantAll(t, c.run(cli.Done, "", "kinds"), "\ndisk  1        -\n")
	if text := c.run(cli.Done, "", "get", "disk", "prod/data", "-o", "yaml"); strings.Contains(text, "spec") || !strings.Contains(text, "cloud.example/disk") {
		t.Errorf("without its type it shows:\n%s", text)
	}
	c.run(cli.Done, "", "pause", "disk", "prod/data")
	if o := now(); !o.Paused || o.PausedSince.IsZero() || o.Spec != stored.Spec {
		t.Errorf("paused is %+v", o)
	}
	c.run(cli.NeedsType, "kind: disk\nmeta: {name: x}\nspec: {size: 1}\n", "apply", "-f", "-")
	c.config.Kinds = func(b store.Backend) ([]objects.Kind, error) { return []objects.Kind{objects.Of(newDisks(b))}, nil }
	wantAll(t, c.run(cli.Done, "", "describe", "disk", "prod/data"), "password: (secret)", "size: 10")
	text := c.run(cli.Done, "", "get", "disk", "-o", "yaml")
	wantAll(t, c.run(cli.Done, strings.Replace(text, "size: 10", "size: 11", 1), "apply", "-f", "-"), "changed")
	c.run(cli.Invalid, strings.Replace(text, "size: 10", "size: -11", 1), "apply", "-f", "-")
	c.run(cli.Conflict, "", "delete", "disk", "prod/data", "-revision", stored.Revision.String())
	c.run(cli.Done, "", "resume", "disk", "prod/data")
	if o := now(); o.Paused || !o.PausedSince.IsZero() || o.Spec != (spec{11, "hunter2"}) || !o.HasFinalizer("cloud.example/disk") {
		t.Errorf("applied is %+v", o)
	}
	beside := "file:" + filepath.Join(t.TempDir(), "copy")
	wantAll(t, c.run(cli.Done, "", "copy", address, beside, "disk"), "disk: 1 copied")
	wantAll(t, c.run(cli.Done, "", "copy", beside, address, "disk"), "disk: 0 copied") // compared byte by byte
	wantAll(t, c.run(cli.Done, "", "delete", "disk", "prod/data"), "waits for cloud.example/disk")
	c.run(cli.Done, "", "remove-finalizer", "disk", "prod/data", "cloud.example/disk")
	if _, err := d.Get(ctx, stored.Key()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("after its deletion: %v", err)
	}
	c.run(cli.NotFound, "", "get", "disk", "prod/data")
}

// lacks skips a test on a machine without a program, and fails it where the variable says
// that there must be one, as in CI.
func lacks(t *testing.T, variable string, err error) {
	t.Helper()
	if err != nil && os.Getenv(variable) == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// startEtcd starts the installed etcd, which ends with the test, and returns its endpoint.
func startEtcd(t *testing.T) string {
	t.Helper()
	binary, err := exec.LookPath("etcd")
	lacks(t, "TEND_ETCD", err)
	host := freeAddress()
	client, peer := "http://"+host, "http://"+freeAddress()
	started(t, "serving client traffic", exec.Command(binary, "--name", "alone", "--data-dir", t.TempDir(),
		"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
		"--initial-advertise-peer-urls", peer, "--initial-cluster", "alone="+peer, "--logger", "zap", "--log-outputs", "stderr"))
	return host
}

// startPostgres starts a PostgreSQL server, which ends with the test, and returns its DSN.
func startPostgres(t *testing.T) string {
	t.Helper()
	bin := ""
	if dir := os.Getenv("TEND_POSTGRES_BIN"); dir != "" {
		bin = dir + "/"
	} else if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb"); len(found) > 0 {
		bin = filepath.Dir(found[len(found)-1]) + "/"
	}
	_, err := exec.LookPath(bin + "initdb")
	lacks(t, "TEND_NEED_POSTGRES", err)
	dir := must(os.MkdirTemp("/tmp", "tend-cli-")) //nolint:usetesting // the path of a socket in it has 107 bytes at most, and another user enters it
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	as := unprivileged(t)
	if as != nil {
		if err := os.Chown(dir, int(as.Uid), int(as.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	initdb := exec.Command(bin+"initdb", "-D", dir+"/data", "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--no-locale")
	initdb.Dir, initdb.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v: %s", err, out)
	}
	server := exec.Command(bin+"postgres", "-D", dir+"/data", "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "shared_buffers=16MB")
	server.Dir, server.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	started(t, "database system is ready to accept connections", server)
	return "host=" + dir + " user=postgres dbname=postgres"
}

// unprivileged is the user that PostgreSQL runs as: it refuses to be root.
func unprivileged(t *testing.T) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			return &syscall.Credential{Uid: uint32(must(strconv.ParseUint(u.Uid, 10, 32))), Gid: uint32(must(strconv.ParseUint(u.Gid, 10, 32)))}
		}
	}
	t.Fatal("there is no unprivileged user to run PostgreSQL as")
	return nil
}

// started starts a server and waits for the line of its log that says that it serves. It
// ends with the test.
func started(t *testing.T, serves string, cmd *exec.Cmd) {
	t.Helper()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	log := must(cmd.StderrPipe())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGQUIT) // of PostgreSQL: end at once, with all processes
		<-read
		_ = cmd.Wait() // it ended by a signal
	})
	lines := bufio.NewScanner(log)
	said := ""
	for lines.Scan() && !strings.Contains(lines.Text(), serves) {
		said += lines.Text() + "\n"
	}
	go func() { // ends with the server, waited for in the cleanup
		_, _ = io.Copy(io.Discard, log)
		close(read)
	}()
	if !strings.Contains(lines.Text(), serves) {
		t.Fatalf("%s does not serve:\n%s", cmd.Path, said)
	}
}

// freeAddress is one of the loopback that nothing listens on, with a port below those that
// the system gives to outgoing connections.
func freeAddress() string {
	for {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(18000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
}
