// Command 01-loop keeps the files of a directory as a list declares them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tendhq/tend/reconcile"
)

func main() {
	path, err := os.MkdirTemp("", "loop")
	check(err)
	defer os.RemoveAll(path)
	ctx, stop := context.WithCancel(context.Background())
	declared := &list{files: map[string]string{"motd": "welcome\n"}}
	done := make(chan string)
	dir := directory{path, done}

	// guide: each
	controller, err := reconcile.Each("files", 50*time.Millisecond, declared.get,
		func(_ context.Context, name string, want *string) (reconcile.Result, error) {
			if want == nil { // the list does not have it any more
				return reconcile.Result{}, dir.remove(name)
			}
			return reconcile.Result{}, dir.keep(name, *want) // an error is tried again, with backoff
		}, nil)
	// guide: end
	check(err)

	ended := make(chan error)
	go func() { ended <- controller.Run(ctx) }()
	fmt.Println("declared:  ", <-done)
	check(os.Remove(filepath.Join(path, "motd"))) // behind the controller's back
	fmt.Println("drifted:   ", <-done)
	declared.set(map[string]string{"motd": "back at noon\n"})
	fmt.Println("edited:    ", <-done)
	declared.set(map[string]string{})
	fmt.Println("undeclared:", <-done)
	stop()
	fmt.Println("ended with", <-ended)
}

// directory is what is to be as declared.
type directory struct {
	path string
	done chan<- string // told of each change
}

// guide: keep
func (d directory) keep(name, want string) error {
	file := filepath.Join(d.path, name)
	have, err := os.ReadFile(file)
	if err == nil && string(have) == want {
		return nil // as declared
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
		return err
	}
	d.done <- "wrote " + name
	return nil
}

func (d directory) remove(name string) error {
	if err := os.Remove(filepath.Join(d.path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // what is gone already is as it should be
	}
	d.done <- "removed " + name
	return nil
}

// guide: end

// list is what is declared: a file, a database or an API in a real program.
type list struct {
	mu    sync.Mutex
	files map[string]string
}

func (l *list) get(context.Context) (map[string]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.files == nil { // an empty map and no error would remove every file
		return nil, errors.New("nothing was read")
	}
	return l.files, nil
}

func (l *list) set(files map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.files = files
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
