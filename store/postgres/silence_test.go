package postgres_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/tendhq/tend/store/postgres"
)

// What a server said before it went silent is in the error of Open: it was asked for again
// until the time was over, and the last try has no answer.
//
// Negative control: mutant "the last try to open is all that is said".
func TestOpenSaysWhatTheServerSaidBeforeItWentSilent(t *testing.T) {
	t.Parallel()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	go func() { // ends when the listener is closed
		defer close(served)
		for n := 0; ; n++ {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			if n == 0 {
				b := pgproto3.NewBackend(conn, conn)
				if _, err := b.ReceiveStartupMessage(); err != nil {
					t.Error(err)
				}
				b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "57P03", Message: "the database system is starting up"})
				if err := b.Flush(); err != nil {
					t.Error(err)
				}
				conn.Close()
			}
		}
	}()
	dsn := "postgres://" + server.Addr().String() + "/postgres?sslmode=disable"
	_, err = postgres.Open(context.Background(), dsn, &postgres.Options{Timeout: 2 * time.Second})
	if err == nil || !strings.Contains(err.Error(), "starting up") {
		t.Errorf("Open: %v, want what the server said", err)
	}
}
