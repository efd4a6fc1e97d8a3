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
	dir, err := os.MkdirTemp("", "loop")
	check(err)
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background())
	declared := &list{files: map[string]string{"motd": "welcome\n"}}
	done := make(chan string)

	// guide: each
	controller, err := reconcile.Each("files", 50*time.Millisecond, declared.get,
		func(_ context.Context, name string, want *string) (reconcile.Result, error) {
			file := filepath.Join(dir, name)
			if want == nil { // the list does not have it any more
				err := os.Remove(file)
				if err == nil {
					done <- "removed " + name
				}
				return reconcile.Result{}, err
			}
			have, err := os.ReadFile(file)
			if err == nil && string(have) == *want {
				return reconcile.Result{}, nil // as declared
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return reconcile.Result{}, err // tried again, with backoff
			}
			if err := os.WriteFile(file, []byte(*want), 0o600); err != nil {
				return reconcile.Result{}, err
			}
			done <- "wrote " + name
			return reconcile.Result{}, nil
		}, nil)
	check(err)
	// guide: end

	ended := make(chan error)
	go func() { ended <- controller.Run(ctx) }()
	fmt.Println("declared:  ", <-done)
	check(os.Remove(filepath.Join(dir, "motd"))) // behind the controller's back
	fmt.Println("drifted:   ", <-done)
	declared.set(map[string]string{"motd": "back at noon\n"})
	fmt.Println("edited:    ", <-done)
	declared.set(nil)
	fmt.Println("undeclared:", <-done)
	stop()
	fmt.Println("ended with", <-ended)
}

// list is what is declared: a file, a database or an API in a real program.
type list struct {
	mu    sync.Mutex
	files map[string]string
}

func (l *list) get(context.Context) (map[string]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
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
