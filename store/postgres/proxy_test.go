//go:build unix

package postgres_test

import (
	"net"
	"sync"
	"testing"
)

// proxy stands between a client and a server and breaks the connection in the
// ways that networks do.
type proxy struct {
	listener net.Listener

	mu     sync.Mutex // guards the rest
	target string
	mode   mode
	conns  map[net.Conn]bool
	turn   chan struct{} // closed and replaced when the mode changes
	wg     sync.WaitGroup
}

type mode int

const (
	pass      mode = iota
	blackhole      // connections stay open, nothing comes through
	reset          // connections are cut, new ones refused
)

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target, conns: make(map[net.Conn]bool), turn: make(chan struct{})}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.set(reset)
		p.wg.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) set(m mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = m
	close(p.turn)
	p.turn = make(chan struct{})
	if m == reset {
		for c := range p.conns {
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			c.Close()
		}
	}
}

func (p *proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target := p.target
		p.mu.Unlock()
		out, err := net.Dial("tcp", target)
		if err != nil {
			in.Close()
			continue
		}
		p.mu.Lock()
		refuse := p.mode == reset
		if !refuse {
			p.conns[in], p.conns[out] = true, true
			p.wg.Go(func() { p.pump(in, out) })
			p.wg.Go(func() { p.pump(out, in) })
		}
		p.mu.Unlock()
		if refuse {
			in.Close()
			out.Close()
		}
	}
}

func (p *proxy) pump(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && p.open(from) {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// open waits until traffic may pass. It says no when the connection was cut.
func (p *proxy) open(c net.Conn) bool {
	for {
		p.mu.Lock()
		m, turn := p.mode, p.turn
		p.mu.Unlock()
		switch m {
		case pass:
			return true
		case reset:
			return false
		}
		<-turn
	}
}
