package metrics

import "github.com/prometheus/client_golang/prometheus"

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
	retries        = describe("workqueue_retries_total", "Runs that failed and were put back to run again.", "name", "controller")
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

// What the others do not have.
var (
	keys        = describe("tend_queue_keys", "Keys by state.", "name", "state")
	dispatched  = describe("tend_queue_dispatched_total", "Runs begun.", "name")
	oldestReady = describe("tend_queue_oldest_ready_age_seconds", "How long the key that is ready for longest has been so; 0 if none is.", "name")
	paused      = describe("tend_queue_paused", "1 if the whole queue is paused.", "name")

	stuckWorkers   = describe("tend_controller_stuck_workers", "Runs that ignored the end of their context.", "controller")
	ownedShards    = describe("tend_controller_owned_shards", "Shards of the controller that this process holds.", "controller")
	healthy        = describe("tend_controller_healthy", "1 if no source keeps failing and no run is stuck.", "controller")
	sourceSynced   = describe("tend_source_synced", "1 if the source has sent everything that was there when it started.", "controller", "source")
	sourceRestarts = describe("tend_source_restarts_total", "How often the source ended with an error and was started again.", "controller", "source")
	sourceSkipped  = describe("tend_source_skipped_total", "What the source sent that names no valid key.", "controller", "source")

	cacheObjects     = describe("tend_cache_objects", "Objects in the cache.", "cache")
	cacheSynced      = describe("tend_cache_synced", "1 if the cache holds a complete snapshot.", "cache")
	cacheConnected   = describe("tend_cache_connected", "1 if the cache's watch is open and has delivered.", "cache")
	cacheUndecodable = describe("tend_cache_undecodable_objects", "Objects in the store that cannot be decoded.", "cache")
	watchResyncs     = describe("tend_watch_resyncs_total", "Snapshots after the first, by reason: lost is a watch too old or too slow, restored a store whose revision went back.", "cache", "reason")

	bucketTokens    = describe("tend_bucket_tokens", "Tokens in the bucket; negative after a charge.", "bucket")
	bucketPaused    = describe("tend_bucket_paused", "1 while the bucket is paused.", "bucket")
	bucketThrottled = describe("tend_throttled_seconds_total", "For how long the bucket has been paused.", "bucket")
)
