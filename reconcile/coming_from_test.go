package reconcile_test

import (
	"strings"
	"testing"

	"github.com/tendhq/tend/internal/comingfrom"
)

// The pages for those who come from Consul's controller and from
// controller-runtime have all of their names, and none of ours that is not in the
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
	} {
		if err := comingfrom.Check(page, strings.Fields(theirs)); err != nil {
			t.Errorf("%s:\n%v", page, err)
		}
	}
}
