//go:build unix

package campaign

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
)

// Process is a process that a test needs: one that ends although neither Kill nor Stop was called is a
// failure. Its fields are set before Start. Its methods but for Ended are called by one goroutine.
type Process struct {
	Name string
	// Command makes the command that Start runs. Its standard input stays open until Stop.
	Command func() *exec.Cmd
	// Hear gets each line of its standard output, on one goroutine; nil: the output is not read.
	Hear func(line string)
	// Failed is called, on a goroutine of its own, when the process has ended although it was not told to,
	// with what it wrote last to its standard error.
	Failed func(error)

	cmd   *exec.Cmd
	stdin io.Closer
	told  *atomic.Bool  // whether the process was told to end
	ended chan struct{} // closed when the process has ended and its last line was heard
}

// Start starts the process, also again after Kill or Stop.
func (p *Process) Start() error {
	cmd := p.Command()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	var out io.Reader
	if p.Hear != nil {
		if out, err = cmd.StdoutPipe(); err != nil {
			return err
		}
	}
	last := new(tail)
	cmd.Stderr = io.MultiWriter(os.Stderr, last)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	told, ended := new(atomic.Bool), make(chan struct{})
	p.cmd, p.stdin, p.told, p.ended = cmd, stdin, told, ended
	go func() { // ends with the process
		defer close(ended)
		if out != nil {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				p.Hear(lines.Text())
			}
		}
		_ = cmd.Wait() // the state says it too, and what failed in copying counts for nothing
		if !told.Load() {
			p.Failed(fmt.Errorf("%s ended, though not told to: %v: %s", p.Name, cmd.ProcessState, *last))
		}
	}()
	return nil
}

// Kill ends the process as a power cut would, and returns after its last line was heard.
func (p *Process) Kill() {
	p.told.Store(true)
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// Stop tells the process to end, by the end of its standard input, and returns after it has.
func (p *Process) Stop() {
	p.told.Store(true)
	p.stdin.Close()
	<-p.ended
}

// Ended is closed after the last line of the process that Start started last.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Pause freezes the process until Resume.
func (p *Process) Pause() { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume ends Pause.
func (p *Process) Resume() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// tail keeps the end of what is written.
type tail []byte

func (t *tail) Write(text []byte) (int, error) {
	const most = 2000
	*t = append(*t, text...)
	*t = (*t)[max(0, len(*t)-most):]
	return len(text), nil
}
