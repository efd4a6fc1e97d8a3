package check

import (
	"strings"
	"testing"
)

// comingFrom has, for each page for users of another library, all names of that library that
// its table must have, and the folder with the examples that it names.
var comingFrom = map[string]struct{ folder, theirs string }{
	"consul": {"reconcile", `
		RequeueAfter RequeueAfterError RequeueAfterError.Error RequeueNow
		Controller ForType Controller.String Controller.WithBackoff Controller.WithLogger Controller.WithPlacement
		Controller.WithReconciler Controller.WithWatch DependencyMapper MapOwnerFiltered ReplaceType
		Lease Lease.Held Lease.Changed Manager NewManager Manager.Register Manager.Run Manager.SetRaftLeader
		Placement PlacementSingleton PlacementEachServer Reconciler Reconciler.Reconcile Request Request.ID
		Runtime Runtime.Client Runtime.Logger`},
	"controller-runtime": {"reconcile", `
		Reconciler Reconciler.Reconcile Func Request NamespacedName NamespacedName.Namespace NamespacedName.Name
		Result Result.Requeue Result.RequeueAfter`},
	"river": {"reconcile", `
		Worker Worker.Work JobArgs JobArgs.Kind Client.Insert Client.InsertTx InsertOpts.ScheduledAt InsertOpts.Priority
		InsertOpts.Queue InsertOpts.MaxAttempts UniqueOpts Worker.Timeout Worker.NextRetry JobSnooze JobCancel ErrorHandler
		QueueConfig.MaxWorkers PeriodicJob Client.Start Client.Stop
		Task NewTask Handler ServeMux asynq.Client.Enqueue ProcessIn ProcessAt Unique TaskID MaxRetry Timeout Deadline
		Retention SkipRetry Config.Concurrency Config.Queues Config.RetryDelayFunc Scheduler Inspector Server.Run
		Server.Shutdown`},
	"cron": {"reconcile", `time.NewTicker`},
	"crossplane": {"reconcile/external", `
		FinalizerName ControllerName CriticalAnnotationUpdater CriticalAnnotationUpdater.UpdateCriticalAnnotations
		CriticalAnnotationUpdateFn CriticalAnnotationUpdateFn.UpdateCriticalAnnotations
		RetryingCriticalAnnotationUpdater NewRetryingCriticalAnnotationUpdater
		RetryingCriticalAnnotationUpdater.UpdateCriticalAnnotations WithCriticalAnnotationUpdater ExternalClient
		ExternalClient.Observe ExternalClient.Create ExternalClient.Update ExternalClient.Delete ExternalClientFns
		ExternalClientFns.Observe ExternalClientFns.Create ExternalClientFns.Update ExternalClientFns.Delete
		ExternalClientFns.ObserveFn ExternalClientFns.CreateFn ExternalClientFns.UpdateFn ExternalClientFns.DeleteFn
		ExternalConnecter ExternalConnecter.Connect ExternalConnectorFn ExternalConnectorFn.Connect
		ExternalDisconnecter ExternalDisconnecter.Disconnect ExternalDisconnectorFn ExternalDisconnectorFn.Disconnect
		ExternalConnectDisconnecter ExternalConnectDisconnecterFns ExternalConnectDisconnecterFns.ConnectFn
		ExternalConnectDisconnecterFns.DisconnectFn ExternalConnectDisconnecterFns.Connect
		ExternalConnectDisconnecterFns.Disconnect NopDisconnecter NewNopDisconnecter NopDisconnecter.Connect
		NopDisconnecter.Disconnect NopConnecter NopConnecter.Connect NopClient NopClient.Observe NopClient.Create
		NopClient.Update NopClient.Delete ExternalObservation ExternalObservation.ResourceExists
		ExternalObservation.ResourceUpToDate ExternalObservation.ResourceLateInitialized ExternalObservation.Diff
		PollIntervalHook WithPollIntervalHook WithPollInterval WithPollJitterHook Reconciler NewReconciler
		ReconcilerOption WithCreationGracePeriod WithExternalConnecter WithExternalConnectDisconnecter WithFinalizer
		WithLogger WithRecorder WithTimeout WithDeterministicExternalName WithManagementPolicies WithMinPollInterval
		WithChangeLogger ManagementPolicies ExternalCreateIncomplete WithReferenceResolver WithInitializers
		WithConnectionPublishers ConnectionDetails ExternalObservation.ConnectionDetails WithMetricRecorder MetricRecorder
		TypedExternalClient TypedExternalConnector`},
	"grafana": {"reconcile/lifecycle", `
		Reconciler Reconciler.Reconcile ReconcileRequest ReconcileRequest.Object ReconcileRequest.Action
		ReconcileRequest.State ReconcileAction ReconcileActionUnknown ReconcileActionCreated ReconcileActionUpdated
		ReconcileActionDeleted ReconcileActionResynced ReconcileActionFromResourceAction
		ResourceActionFromReconcileAction ReconcileResult ReconcileResult.RequeueAfter ReconcileResult.State
		OpinionatedReconciler OpinionatedReconciler.Reconciler OpinionatedReconciler.Reconcile
		OpinionatedReconciler.Wrap NewOpinionatedReconciler SimpleReconciler SimpleReconciler.ReconcileFunc
		SimpleReconciler.Reconcile TypedReconciler TypedReconcileRequest InformerController.AddReconciler
		InformerController.RemoveReconciler InformerController.RemoveAllReconcilersForResource
		InformerController.RemoveInformer InformerController.PrometheusCollectors InformerControllerConfig
		DefaultInformerControllerConfig DefaultErrorHandler ErrNilObject
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
		SimpleWatcher.Add SimpleWatcher.Update SimpleWatcher.Delete`},
	"openmcp": {"reconcile/lifecycle", `
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
		Status.GetStatus Status.GetConditions Status.SetPhase Status.SetObservedGeneration`},
}

// The pages of docs/coming-from have all names of the other side, and none of ours that is
// not in the code. Negative controls: with reconcile.Same, external.Nop or lifecycle.Wrap
// renamed on its page it failed.
func TestComingFromPagesNameWhatExists(t *testing.T) {
	all, pages := ours(t), files(t, func(s source) bool { return s.isPage() && s.within("docs/coming-from") })
	for _, page := range pages {
		want, ok := comingFrom[strings.TrimSuffix(strings.TrimPrefix(page.name, "docs/coming-from/"), ".md")]
		if !ok {
			t.Errorf("%s: this test has no names of the other library", page.name)
			continue
		}
		examples := declared{}
		for name := range names(t, func(s source) bool { return s.isTest() && s.folder() == want.folder }) {
			_, example, _ := strings.Cut(name, ".")
			examples[example] = true
		}
		for _, wrong := range all.table(page.text, strings.Fields(want.theirs), examples) {
			t.Errorf("%s: %s", page.name, wrong)
		}
	}
	if len(pages) != len(comingFrom) {
		t.Errorf("found %d pages, want %d", len(pages), len(comingFrom))
	}
}
