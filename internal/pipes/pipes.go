// Package pipes serves handlers over pipes, for tests: their deadlines are those of a synctest
// bubble, and a connection that waits for its caller lets the bubble's time pass.
package pipes

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A Listener accepts what Dial makes. Make one with Listen, in the bubble.
type Listener struct {
	dialed chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// Listen returns a new one.
func Listen() *Listener {
	return &Listener{dialed: make(chan net.Conn), closed: make(chan struct{})}
}

// Serve serves h, as a host's own server without timeouts, until the Listener is closed.
func Serve(h http.Handler) *Listener {
	l := Listen()
	server := &http.Server{Handler: h}
	go func() { // ended by Close
		_ = server.Serve(l)
		_ = server.Close()
	}()
	return l
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.dialed:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements [net.Listener].
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{} }

// Send sends the lines of a request, and a body if the last one is that after an empty line.
func (l *Listener) Send(lines ...string) net.Conn {
	caller, server := net.Pipe()
	l.dialed <- server
	if _, err := io.WriteString(caller, strings.Join(lines, "\r\n")+"\r\n\r\n"); err != nil {
		panic(err)
	}
	return caller
}

// Answer reads the answer on a connection, for up to an hour.
func Answer(c net.Conn) (status int, text string, err error) {
	if err := c.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
		return 0, "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		err = fmt.Errorf("%d: %w", resp.StatusCode, err)
	}
	return resp.StatusCode, string(data), err
}

// Half sends a request whose body does not come.
func (l *Listener) Half(method, target string, headers ...string) net.Conn {
	return l.Send(append([]string{method + " " + target + " HTTP/1.1", "Host: localhost", "Content-Length: 1"}, headers...)...)
}

// Whole sends a request without a body, and reads the answer.
func (l *Listener) Whole(method, target string) (status int, text string, err error) {
	c := l.Send(method+" "+target+" HTTP/1.1", "Host: localhost", "Connection: close")
	defer c.Close()
	return Answer(c)
}
