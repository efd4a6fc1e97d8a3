package campaign

import (
	"net"
	"sync"
	"testing"
)

// Proxy stands between a client and a server and breaks the connection in the ways that
// networks do. It is safe for concurrent use.
type Proxy struct {
	listener net.Listener

	mu     sync.Mutex // guards the rest
	target string
	mode   Mode
	conns  map[net.Conn]bool
	// frozen connections carry nothing any more.
	frozen map[net.Conn]bool
	turn   chan struct{} // closed and replaced when the mode changes
	wg     sync.WaitGroup
}

// Mode is what a Proxy does with its connections.
type Mode int

// The modes of a Proxy.
const (
	Pass      Mode = iota // everything goes through
	Blackhole             // connections stay open, nothing comes through
	Reset                 // connections are cut, new ones refused
)

// NewProxy listens on a port of its own until the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, target: target, conns: make(map[net.Conn]bool), frozen: make(map[net.Conn]bool), turn: make(chan struct{})}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.Set(Reset)
		p.wg.Wait()
	})
	return p
}

// Addr is where the Proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Set changes the mode, also for connections that are open.
func (p *Proxy) Set(m Mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = m
	close(p.turn)
	p.turn = make(chan struct{})
	if m == Reset {
		for c := range p.conns {
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			c.Close()
		}
	}
}

// Freeze makes every open connection a Blackhole for good, and lets new ones
// through.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		p.frozen[c] = true
	}
	close(p.turn)
	p.turn = make(chan struct{})
}

// Redirect cuts every connection and sends new ones elsewhere.
func (p *Proxy) Redirect(target string) {
	p.mu.Lock()
	p.target = target
	p.mu.Unlock()
	p.Set(Reset)
	p.Set(Pass)
}

func (p *Proxy) accept() {
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
		refuse := p.mode == Reset
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

func (p *Proxy) pump(from, to net.Conn) {
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

// open waits until traffic may pass. It is false when the connection was cut.
func (p *Proxy) open(c net.Conn) bool {
	for {
		p.mu.Lock()
		m, turn := p.mode, p.turn
		if p.frozen[c] && m != Reset {
			m = Blackhole
		}
		p.mu.Unlock()
		switch m {
		case Pass:
			return true
		case Reset:
			return false
		}
		<-turn
	}
}
