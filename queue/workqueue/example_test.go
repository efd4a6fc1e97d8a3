package workqueue_test

import (
	"fmt"

	"github.com/tendhq/tend/queue/workqueue"
)

// The worker loop that everybody writes for client-go, unchanged.
func Example() {
	q, err := workqueue.New[string](nil)
	if err != nil {
		panic(err)
	}
	q.Add("a")
	q.Add("b")
	q.Add("a")
	q.ShutDown()
	for {
		key, shutdown := q.Get()
		if shutdown {
			return
		}
		fmt.Println("reconciled", key)
		q.Forget(key)
		q.Done(key)
	}
	// Unordered output:
	// reconciled a
	// reconciled b
}
