package reconciletest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/reconciletest"
)

// A cloud whose every write loses its answer: it took effect, and the caller
// cannot know.
func ExampleCloud() {
	cloud, _ := reconciletest.NewCloud(&reconciletest.CloudOptions{Lost: 1})
	_, err := cloud.Create(context.Background(), reconciletest.Resource{Name: "disk"})
	fmt.Println(err)
	fmt.Println("there are", len(cloud.Truth()))
	// Output:
	// Create: cloud: request timed out
	// there are 1
}

// Killing a reconciler at each step of its work, and letting another take over,
// shows whether it can make something twice. This one can.
func ExampleSteps() {
	for kill := 1; ; kill++ {
		cloud, _ := reconciletest.NewCloud(nil)
		known := "" // what it remembers of its resource
		reconciler := reconcile.Func[string](func(ctx context.Context, name string) (reconcile.Result, error) {
			if known != "" {
				return reconcile.Result{}, nil
			}
			r, err := cloud.Create(ctx, reconciletest.Resource{Name: name})
			known = r.ID
			return reconcile.Result{}, err
		})
		steps := &reconciletest.Steps{Kill: kill}
		cloud.Through(steps)
		first := reconciletest.RunOne(context.Background(), reconciler, "disk")
		if !errors.Is(first.Err, reconciletest.ErrKilled) {
			return // it ended before the step was reached: all were tried
		}
		cloud.Through(nil)
		reconciletest.RunUntilIdle(context.Background(), reconciler, "disk", time.Minute)
		fmt.Println(len(cloud.Truth()), steps.Trail()[kill-1])
	}
	// Output:
	// 1 1 before cloud Create
	// 2 2 after cloud Create
}

// Whether a system comes to be as declared, and stays so for a minute. In a test
// this stands in a synctest bubble, where the minute takes no time; see docs/TESTING-A-RECONCILER.md.
func ExampleConverge() {
	cloud, _ := reconciletest.NewCloud(nil)
	cloud.Put(reconciletest.Resource{Name: "disk"})
	err := reconciletest.Converge(context.Background(), time.Minute, 0, func() error {
		if n := len(cloud.Truth()); n != 1 {
			return fmt.Errorf("%d disks, want one", n)
		}
		return nil
	})
	fmt.Println(err)
	// Output: <nil>
}
