package main

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// An s3Server is an S3 server inside this process, in memory, on a loopback
// port. It creates, lists, heads, versions and deletes buckets as S3 does. It
// has no bucket tags (it takes a tagging request for a creation; probe.go finds
// that out) and no regions: it accepts each and remembers none.
type s3Server struct {
	URL    string
	server *http.Server
	ended  chan error
}

// startS3 serves on a free port.
func startS3() (*s3Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &s3Server{
		URL: "http://" + listener.Addr().String(),
		server: &http.Server{
			Handler:           newFake(),
			ReadHeaderTimeout: 10 * time.Second,
			ErrorLog:          log.New(io.Discard, "", 0), // clients that went away are no news
		},
		ended: make(chan error, 1),
	}
	go func() { s.ended <- s.server.Serve(listener) }() // ends at Close, which waits for it
	return s, nil
}

// newFake is gofakes3 in memory.
func newFake() http.Handler {
	return gofakes3.New(replacing{s3mem.New()}, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
}

// replacing is a backend of which an object that is written again has no metadata of the
// one before, as in S3; gofakes3 carries it over, and with it the mark of another's file.
type replacing struct{ *s3mem.Backend }

// PutObject empties what would be carried over: to leave it out means to keep it.
func (b replacing) PutObject(bucket, key string, meta map[string]string, body io.Reader, size int64,
	conditions *gofakes3.PutConditions,
) (gofakes3.PutObjectResult, error) {
	if old, err := b.HeadObject(bucket, key); err == nil {
		for name := range old.Metadata {
			if _, given := meta[name]; !given && strings.HasPrefix(name, "X-Amz-Meta-") {
				meta[name] = ""
			}
		}
	}
	return b.Backend.PutObject(bucket, key, meta, body, size, conditions)
}

// Close stops the server; what it held is gone.
func (s *s3Server) Close() error {
	err := s.server.Close()
	if end := <-s.ended; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}
