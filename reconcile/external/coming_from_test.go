package external_test

import (
	"strings"
	"testing"

	"github.com/tendhq/tend/internal/comingfrom"
)

// The page for users of Crossplane or provider-runtime has all of
// their names, and none of ours that is not in the code.
//
// Negative control: with external.Nop renamed on the page this failed.
func TestComingFromPageNamesWhatExists(t *testing.T) {
	theirs := `
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
			TypedExternalClient TypedExternalConnector`
	if err := comingfrom.Check("COMING-FROM-CROSSPLANE.md", strings.Fields(theirs)); err != nil {
		t.Error(err)
	}
}
