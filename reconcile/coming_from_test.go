package reconcile_test

import (
	"strings"
	"testing"

	"github.com/tendhq/tend/internal/comingfrom"
)

// The pages for users of Consul's controller, of controller-runtime, of job queues and of
// cron have all of their names, and none of ours that is not in the
// code. Negative control: with reconcile.Same renamed on the page it failed.
func TestComingFromPagesNameWhatExists(t *testing.T) {
	for page, theirs := range map[string]string{
		"COMING-FROM-CONSUL.md": `
			RequeueAfter RequeueAfterError RequeueAfterError.Error RequeueNow
			Controller ForType Controller.String Controller.WithBackoff Controller.WithLogger Controller.WithPlacement
			Controller.WithReconciler Controller.WithWatch DependencyMapper MapOwnerFiltered ReplaceType
			Lease Lease.Held Lease.Changed Manager NewManager Manager.Register Manager.Run Manager.SetRaftLeader
			Placement PlacementSingleton PlacementEachServer Reconciler Reconciler.Reconcile Request Request.ID
			Runtime Runtime.Client Runtime.Logger`,
		"COMING-FROM-CONTROLLER-RUNTIME.md": `
			Reconciler Reconciler.Reconcile Func Request NamespacedName NamespacedName.Namespace NamespacedName.Name
			Result Result.Requeue Result.RequeueAfter`,
		"COMING-FROM-RIVER.md": `
			Worker Worker.Work JobArgs JobArgs.Kind Client.Insert Client.InsertTx InsertOpts.ScheduledAt InsertOpts.Priority
			InsertOpts.Queue InsertOpts.MaxAttempts UniqueOpts Worker.Timeout Worker.NextRetry JobSnooze JobCancel ErrorHandler
			QueueConfig.MaxWorkers PeriodicJob Client.Start Client.Stop
			Task NewTask Handler ServeMux asynq.Client.Enqueue ProcessIn ProcessAt Unique TaskID MaxRetry Timeout Deadline
			Retention SkipRetry Config.Concurrency Config.Queues Config.RetryDelayFunc Scheduler Inspector Server.Run
			Server.Shutdown`,
		"COMING-FROM-CRON.md": `time.NewTicker`,
	} {
		if err := comingfrom.Check(page, strings.Fields(theirs)); err != nil {
			t.Errorf("%s:\n%v", page, err)
		}
	}
}
