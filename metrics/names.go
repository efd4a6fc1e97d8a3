package metrics

import "github.com/prometheus/client_golang/prometheus"

// This one is a histogram of client_golang's own.
const (
	storeTimeName = "tend_store_operation_duration_seconds"
	storeTimeHelp = "How long calls to the store took, by outcome."
)

var storeTimeLabels = []string{"backend", "operation", "outcome"}

var all []*prometheus.Desc

func describe(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc(name, help, labels, nil)
	all = append(all, d)
	return d
}

// Names and labels of client-go's work queue, as controller-runtime registers
// them. name and controller are the same.
var (
	depth          = describe("workqueue_depth", "Keys that are ready to run, by priority.", "name", "controller", "priority")
	adds           = describe("workqueue_adds_total", "Adds that the queue took, also those of keys that were there already.", "name", "controller")
	queueTime      = describe("workqueue_queue_duration_seconds", "How long keys were ready before they ran.", "name", "controller")
	workTime       = describe("workqueue_work_duration_seconds", "How long keys were running.", "name", "controller")
	unfinishedWork = describe("workqueue_unfinished_work_seconds", "How long the keys that run now are running, all together.", "name", "controller")
	longestRunning = describe("workqueue_longest_running_processor_seconds", "How long the key that runs for longest is running.", "name", "controller")
	retries        = describe("workqueue_retries_total", "Runs that failed, also those after which the key was parked, and runs that returned Requeue.", "name", "controller")
)

// Names and labels of controller-runtime.
var (
	reconciles      = describe("controller_runtime_reconcile_total", "Runs by result.", "controller", "result")
	reconcileErrors = describe("controller_runtime_reconcile_errors_total", "Runs that failed, terminal failures included.", "controller")
	terminalErrors  = describe("controller_runtime_terminal_reconcile_errors_total", "Runs that failed for good: their keys are parked.", "controller")
	panics          = describe("controller_runtime_reconcile_panics_total", "Runs that panicked.", "controller")
	timeouts        = describe("controller_runtime_reconcile_timeouts_total", "Runs that passed their deadline.", "controller")
	reconcileTime   = describe("controller_runtime_reconcile_time_seconds", "How long runs took.", "controller")
	maxWorkers      = describe("controller_runtime_max_concurrent_reconciles", "Workers that there are to be.", "controller")
	activeWorkers   = describe("controller_runtime_active_workers", "Workers that run something.", "controller")
	isLeader        = describe("leader_election_master_status", "1 if this process holds the controller's lease, or one of its shards, or needs none; else 0.", "name")
)

// Queues, controllers and their sources: what the others do not have.
var (
	keys        = describe("tend_queue_keys", "Keys by state.", "name", "state")
	dispatched  = describe("tend_queue_dispatched_total", "Runs begun.", "name")
	oldestReady = describe("tend_queue_oldest_ready_age_seconds", "How long the key that is ready for longest has been so; 0 if none is.", "name")
	paused      = describe("tend_queue_paused", "1 while the whole queue is held in this process, as by Pause of the debug page: a restart ends it.", "name")

	stuckWorkers   = describe("tend_controller_stuck_workers", "Runs that ignored the end of their context.", "controller")
	healthy        = describe("tend_controller_healthy", "1 if no source fails or has ended, no run is stuck, and the store of the leases answers.", "controller")
	ownedShards    = describe("tend_controller_owned_shards", "Shards of the controller that this process holds; a singleton has one.", "controller")
	shards         = describe("tend_controller_shards", "Shards that there are; 1 if the keys are not divided.", "controller")
	shardsWon      = describe("tend_controller_shards_won_total", "Shards that this process came to hold.", "controller")
	handovers      = describe("tend_controller_handovers_total", "Shards that this process gave up for another that is to have them.", "controller")
	leasesLost     = describe("tend_controller_leases_lost_total", "Shards that were taken away from this process, because their lease could not be renewed in time or was removed.", "controller")
	putOff         = describe("tend_controller_put_off_runs_total", "Runs that were put off, because changes of the spec made their key run more than ten times in ten seconds.", "controller")
	adaptLimit     = describe("tend_controller_adapt_limit", "The least and the most workers that an adapting controller may have.", "controller", "limit")
	adaptSteps     = describe("tend_controller_adapt_steps_total", "How often an adapting controller took one worker more (up) or halved them (down).", "controller", "direction")
	sourceSynced   = describe("tend_source_synced", "1 if the source has sent everything that was there when it started.", "controller", "source")
	sourceRestarts = describe("tend_source_restarts_total", "How often the source ended with an error and was started again.", "controller", "source")
	trouble        = describe("tend_trouble", "What is wrong, by the words of the debug page and of tend status: how many objects or keys it concerns; 1 if it concerns a whole controller, or a store, whose name is the kind.", "controller", "kind", "what")
	troubleAge     = describe("tend_trouble_seconds", "For how long the first object or key that it concerns has been so; 0 if that is not known.", "controller", "kind", "what")
	sourceSkipped  = describe("tend_source_skipped_total", "What the source sent that names no valid key.", "controller", "source")
)

// Caches and the watches that feed them.
var (
	cacheObjects     = describe("tend_cache_objects", "Objects in the cache.", "cache")
	cacheSynced      = describe("tend_cache_synced", "1 if the cache holds a complete snapshot.", "cache")
	cacheConnected   = describe("tend_cache_connected", "1 if the cache's watch is open and has delivered, and its backend serves. A cache of shards needs no watch while this process holds none.", "cache")
	cacheUndecodable = describe("tend_cache_undecodable_objects", "Objects in the store that cannot be decoded.", "cache")
	cachePending     = describe("tend_cache_pending_changes", "Changes that the slowest reader of the cache has not taken yet; beyond Options.Backlog at most one for each key.", "cache")
	cachePendingAge  = describe("tend_cache_pending_seconds", "For how long a reader of the cache has left a change untaken; 0 if none has.", "cache")
	watchRestarts    = describe("tend_watch_restarts_total", "Watches that ended and were opened again, by reason: disconnected went on where it broke off, compacted had to take a new snapshot.", "cache", "reason")
	watchResyncs     = describe("tend_watch_resyncs_total", "Snapshots after the first, by reason: lost is a watch too old or too slow, restored a store whose revision went back.", "cache", "reason")
	watchLag         = describe("tend_watch_lag_seconds", "How long a run has been waiting for the cache to see a write, or the backend has not served, whichever is longer; 0 if neither.", "cache")
	watchLagRevs     = describe("tend_watch_lag_revisions", "How many revisions the cache is behind the newest write that a run waits for; 0 if none does.", "cache")
)

// Rate limits, stores, and what is outside.
var (
	bucketTokens    = describe("tend_bucket_tokens", "Tokens in the bucket; negative after a charge.", "bucket")
	bucketPaused    = describe("tend_bucket_paused", "1 while the bucket is paused.", "bucket")
	bucketThrottled = describe("tend_throttled_seconds_total", "For how long the bucket has been paused.", "bucket")

	// The budget has the name of its bucket.
	quotaLimit     = describe("tend_quota_limit", "Calls per second that this server may make: its share of what the cloud takes.", "budget")
	quotaFound     = describe("tend_quota_found", "Calls per second that the cloud takes from all servers, as far as this one knows: the rate that was set, or the one that AIMD found.", "budget")
	quotaShare     = describe("tend_quota_share", "The part of the budget that is this server's, from 0, nothing, to 1.", "budget")
	quotaMembers   = describe("tend_quota_members", "Servers that share the budget; 0 while this one is not sure of being among them.", "budget")
	quotaWaiting   = describe("tend_quota_waiting_keys", "Keys that found the budget used up and wait for their turn.", "budget")
	quotaOpen      = describe("tend_quota_circuit_open", "1 while the circuit breaker is open and a call has failed within 10 minutes: the endpoint is down, and one call at a time finds out whether it is back.", "budget")
	quotaCalls     = describe("tend_quota_calls_total", "Calls made.", "budget")
	quotaThrottled = describe("tend_quota_throttled_total", "Calls that the cloud answered with too many.", "budget")
	quotaDown      = describe("tend_quota_down_total", "Calls that were not answered, or with an error of the endpoint's own.", "budget")
	quotaRefused   = describe("tend_quota_refused_total", "Calls that were not made, for want of budget.", "budget")

	_      = describe(storeTimeName, storeTimeHelp, storeTimeLabels...)
	fenced = describe("tend_fenced_writes_total", "Writes that the store refused because the writer's lease was no longer its own.", "backend")

	_             = describe(readyTimeName, readyTimeHelp, "kind")
	objectStates  = describe("tend_objects", "Objects by state: all, and how many of them are ready (as declared in their present generation), synced, paused (in the store, for all servers) and in deletion.", "kind", "state")
	objectPartial = describe("tend_objects_partial", "1 if the server counts the objects of its own shards only: sum such counts over servers. 0: each server counts all of them.", "kind")
	objectOldest  = describe("tend_objects_oldest_seconds", "For how long the object that is longest not ready, not synced, paused or in deletion has been so; 0 if none is, and for a condition that no object of the kind has.", "kind", "state")

	externalCalls = describe("tend_external_calls_total", "Calls of the client of an external system, by how they ended.", "kind", "call", "result")
	externalDrift = describe("tend_external_drift_total", "Looks that found a resource changed although nothing new had been declared.", "kind")

	inventoryFindings = describe("tend_inventory_resources", "What the newest report of the inventory found, by finding.", "kind", "finding")
	inventoryListed   = describe("tend_inventory_listed_timestamp_seconds", "When the list was begun that the newest report is about.", "kind")
	inventoryLists    = describe("tend_inventory_lists_total", "Lists made of the external system, failed ones included.", "kind")
	inventoryFailed   = describe("tend_inventory_failed_lists_total", "Lists of the external system that failed, those that found the budget used up not counted.", "kind")
	inventoryGets     = describe("tend_inventory_gets_total", "Single resources read.", "kind")
	inventoryServed   = describe("tend_inventory_served_total", "Looks that cost no call.", "kind")
	inventoryHeld     = describe("tend_inventory_prune_held", "1 while Prune refuses because of a hold: of an operator, or of a store that went back in time.", "kind")
)
