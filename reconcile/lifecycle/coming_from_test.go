package lifecycle_test

import (
	"strings"
	"testing"

	"github.com/tendhq/tend/internal/comingfrom"
)

// The pages for users of Grafana's and openMCP's runtimes list all of
// their names, and no name of ours that is not in the code.
//
// Negative control: with lifecycle.Wrap renamed it failed.
func TestComingFromPagesNameWhatExists(t *testing.T) {
	for page, theirs := range map[string]string{
		"COMING-FROM-GRAFANA.md": `
			ResourceAction ResourceActionCreate ResourceActionUpdate ResourceActionDelete DefaultRetryPolicy
			ExponentialBackoffRetryPolicy RetryPolicy RetryDequeuePolicy OpinionatedRetryDequeuePolicy EmptyLabelFilters
			ErrInformerAlreadyAdded FinalizerSupplier DefaultFinalizerSupplier Controller Controller.Run
			ConvertableIntoResourceObject ConvertableIntoResourceObject.Into ResourceObjectWrapper
			ResourceObjectWrapper.ResourceObject Informer Informer.Run Informer.AddEventHandler InformerController
			InformerController.ErrorHandler InformerController.RetryPolicy InformerController.RetryDequeuePolicy
			NewInformerController InformerController.AddInformer InformerController.AddWatcher
			InformerController.RemoveWatcher InformerController.RemoveAllWatchersForResource InformerController.Run
			KubernetesBasedInformer KubernetesBasedInformer.ErrorHandler KubernetesBasedInformer.SharedIndexInformer
			NewKubernetesBasedInformer NewKubernetesBasedInformerWithFilters KubernetesBasedInformer.AddEventHandler
			KubernetesBasedInformer.Run KubernetesBasedInformer.Schema KubernetesCompatibleWatch
			KubernetesCompatibleWatch.KubernetesWatch ListWatchClient ListWatchClient.ListInto ListWatchClient.Watch
			ListMap NewListMap ListMap.AddItem ListMap.ItemAt ListMap.KeySize ListMap.Size ListMap.Keys ListMap.Range
			ListMap.RangeAll ListMap.RemoveItem ListMap.RemoveItems ListMap.RemoveItemAt ListMap.RemoveKey Operator New
			Operator.AddController Operator.Run OpinionatedWatcher OpinionatedWatcher.AddFunc
			OpinionatedWatcher.UpdateFunc OpinionatedWatcher.DeleteFunc OpinionatedWatcher.SyncFunc NewOpinionatedWatcher
			NewOpinionatedWatcherWithFinalizer OpinionatedWatcher.Add OpinionatedWatcher.Update OpinionatedWatcher.Delete
			OpinionatedWatcher.Wrap PatchClient ResourceWatcher ResourceWatcher.Add ResourceWatcher.Delete
			ResourceWatcher.Update SimpleWatcher SimpleWatcher.AddFunc SimpleWatcher.UpdateFunc SimpleWatcher.DeleteFunc
			SimpleWatcher.Add SimpleWatcher.Update SimpleWatcher.Delete`,
		"COMING-FROM-OPENMCP.md": `
			ServiceProviderConditionReady StatusPhaseReady StatusReady StatusPhaseProgressing StatusProgressing
			StatusPhaseTerminating StatusTerminating API APIReconciler APIReconciler.Reconcile
			APIReconciler.SetupWithManager APIReconcilerBuilder NewAPIReconcilerBuilder APIReconcilerBuilder.MustBuild
			APIReconcilerBuilder.ClusterAccessReconciler APIReconcilerBuilder.EmptyObjectProvider
			ConfigReconcilerBuilder.EmptyObjectProvider APIReconcilerBuilder.OnboardingCluster
			APIReconcilerBuilder.PlatformCluster APIReconcilerBuilder.ProviderConfig APIReconcilerBuilder.Reconciler
			APIReconcilerBuilder.SecretNamespace APIReconcilerBuilder.WorkloadCluster ClusterAccessProvider
			ClusterAccessProvider.MCPCluster ClusterAccessProvider.WorkloadCluster ClusterAccessProvider.MCPAccessRequest
			ClusterAccessProvider.WorkloadAccessRequest ClusterAccessProvider.Reconcile
			ClusterAccessProvider.ReconcileDelete ClusterContext ClusterContext.MCPCluster ClusterContext.WorkloadCluster
			ClusterContext.MCPAccessSecretKey ClusterContext.WorkloadAccessSecretKey Config Config.PollInterval
			ConfigReconciler ConfigReconciler.Reconcile ConfigReconciler.SetupWithManager ConfigReconcilerBuilder
			NewConfigReconcilerBuilder ConfigReconcilerBuilder.MustBuild ConfigReconcilerBuilder.PlatformCluster
			ConfigReconcilerBuilder.ProviderName ConfigReconcilerBuilder.UpdateChannel Reconciler
			Reconciler.CreateOrUpdate Reconciler.Delete SecretWatcher SecretWatcher.IsReferencedSecret Status
			Status.GetStatus Status.GetConditions Status.SetPhase Status.SetObservedGeneration`,
	} {
		if err := comingfrom.Check(page, strings.Fields(theirs)); err != nil {
			t.Errorf("%s:\n%v", page, err)
		}
	}
}
