package main

import (
	"fmt"
	"path"
	"strings"
	"time"
)

// A campaign is a test that can go on for long. Its name is what the command line
// takes; control names the tests, run in CI, that show that it can fail, with "; " between them:
// of the same package, or of another one, named before it; or says "mutants": the table of promises
// has a control of the campaign's own test.
type campaign struct {
	name, promises, what string
	module, pkg, test    string
	control              string
	race                 bool
	args                 func(d time.Duration) []string
}

// campaignFlag is what most of them have.
func campaignFlag(d time.Duration) []string { return []string{"-campaign", d.String()} }

func perSecond(flag string, n float64, more ...string) func(time.Duration) []string {
	return func(d time.Duration) []string {
		return append([]string{flag, fmt.Sprint(max(1, int(d.Seconds()*n)))}, more...)
	}
}

// fuzz is a campaign of a fuzz target. What it finds it leaves in the package's
// testdata, from where CI runs it for ever.
func fuzz(pkg, target, module string) campaign {
	return campaign{
		name: "fuzz-" + path.Base(pkg) + "-" + target, promises: "F1", what: "no bytes make it panic; " + target,
		module: module, pkg: pkg, test: "^$", control: "the target's own checks",
		args: func(d time.Duration) []string {
			return []string{"-fuzz", "^Fuzz" + target + "$", "-fuzztime", d.String()}
		},
	}
}

var campaigns = []campaign{
	{
		name: "queue-model", promises: "Q1–Q6, Q8", what: "every kind of queue against a plain model, after each of random operations",
		module: ".", pkg: "./queue", test: "^TestModelRandomly$", control: "TestModelCatchesBrokenQueues", args: campaignFlag,
	},
	{
		name: "queue-stamps", promises: "Q1, Q2", what: "adds and runs of many goroutines: each add is seen, no key runs twice at once",
		module: ".", pkg: "./queue", test: "^TestEveryAddIsSeenAndNoKeyRunsTwiceAtOnce$", control: "TestStampsCatchALostAddAndASecondRun", race: true,
		args: campaignFlag,
	},
	{
		name: "plant", promises: "Q2, Q8, R3", what: "start, stop, resize, pause, leases and sources from many goroutines; shutdown at a random step",
		module: ".", pkg: "./reconcile", test: "^TestShutdownAtAnyStepLeavesNothingBehind$", control: "TestShutdownCheckCatchesWhatOutlivesRun", race: true, args: campaignFlag,
	},
	{
		name: "simulation", promises: "E1, Q6", what: "a cloud with every fault, users, drift and restarts; then as declared, and silent",
		module: ".", pkg: "./reconcile/external", test: "^TestSimulationEndsAsDeclared$", control: "TestSimulationCatchesADoubleCreate", args: campaignFlag,
	},
	{
		name: "prunes", promises: "E2", what: "reports and prunes every minute of such a simulation, held against the truth",
		module: ".", pkg: "./reconcile/external", test: "^TestSimulationWithPrunesEndsAsDeclared$", control: "TestSimulationCatchesAPartOfAListTakenForTheWhole", args: campaignFlag,
	},
	{
		name: "graphs", promises: "R4, E2", what: "random dependencies, edited, deleted and declared again, kept by servers that die; then as declared, silent, and torn down in order",
		module: ".", pkg: "./reconcile/depend", test: "^TestSimulatedGraphsEndAsDeclared$", control: "mutants", args: campaignFlag,
	},
	{
		name: "shards-needs", promises: "R4", what: "servers that share objects by shards come and go, lists and watches are slow and break, while the objects, what they need and what they own change: whenever the world stands still each has run with all as it is",
		module: ".", pkg: "./reconcile/depend", test: "^TestNothingIsLeftBehindWhileShardsMove$", control: "mutants", args: campaignFlag,
	},
	{
		name: "mappings", promises: "R1", what: "objects change, shards are gained and lost, mappings fail, and the source hears of it late: what an object refers to, and what it referred to when it was mapped last, runs",
		module: ".", pkg: "./reconcile", test: "^TestMappingsModelRandomly$", control: "mutants", args: campaignFlag,
	},
	{
		name: "graphs-index", promises: "R4", what: "every order of events on every graph of up to five objects: which may run, which wait, which are woken",
		module: ".", pkg: "./reconcile/depend", test: "^TestEveryOrderOfEventsOnUpToFiveObjects$", control: "mutants", args: campaignFlag,
	},
	{
		name: "graphs-kernel", promises: "R4, E2", what: "a running controller over a store: every order of every act on up to three objects, and of declaring and deleting four, with cycles, and five, without; then every act on four, and five with cycles",
		module: ".", pkg: "./reconcile/depend", test: "^TestRunningControllerAgreesInEveryOrderOfEvents$", control: "mutants", args: campaignFlag,
	},
	{
		name: "soak", promises: "Q7, E1", what: "one process over simulated weeks: no goroutine more, no memory more, no write when nothing changes",
		module: ".", pkg: "./reconcile/external", test: "^TestSoakKeepsNothingAndEndsInSilence$", control: "TestSoakCatchesWhatIsKept", args: campaignFlag,
	},
	{
		name: "store-faults", promises: "S1–S3", what: "counters and a watch through a store that loses requests and answers",
		module: ".", pkg: "./store/storetest", test: "^TestNothingIsLostOrDoubledUnderFaults$", control: "TestFaultCheckCatchesARetriedUnknownOutcome", args: campaignFlag,
	},
	{
		name: "store-model", promises: "S1, S3", what: "random writes against the simplest store there is",
		module: ".", pkg: "./store", test: "^TestStoreBehavesLikeItsModel$", control: "mutants", args: perSecond("-rapid.checks", 50),
	},
	{
		name: "store-forms", promises: "S3", what: "random values of random types: what a backend of values and one of bytes give back, refuse, show and call a change",
		module: ".", pkg: "./store/internal/shape", test: "^TestBothFormsAreAlike$", control: "mutants", args: campaignFlag,
	},
	{
		name: "store-alike", promises: "S3", what: "random writes of the oddest types: what values and bytes in memory give back, refuse, show and call a change",
		module: ".", pkg: "./store/memory", test: "^TestRandomWritesAreAlikeInBothForms$", control: "store/storetest TestSuiteRejectsBrokenBackends", args: campaignFlag,
	},
	{
		name: "file-alike", promises: "S3", what: "the same of a file and memory",
		module: ".", pkg: "./store/file", test: "^TestRandomWritesAreAsInMemory$", control: "store/storetest TestSuiteRejectsBrokenBackends", args: campaignFlag,
	},
	{
		name: "etcd-alike", promises: "S3", what: "the same of etcd and memory",
		module: "store/etcd", pkg: ".", test: "^TestRandomWritesAreAsInMemory$", control: "store/storetest TestSuiteRejectsBrokenBackends",
		args: func(d time.Duration) []string { return []string{"-alike", d.String()} },
	},
	{
		name: "postgres-alike", promises: "S3", what: "the same of PostgreSQL and memory",
		module: "store/postgres", pkg: ".", test: "^TestRandomWritesAreAsInMemory$", control: "store/storetest TestSuiteRejectsBrokenBackends",
		args: func(d time.Duration) []string { return []string{"-alike", d.String()} },
	},
	{
		name: "file-kill", promises: "S1, C1", what: "kill -9 of a writing process at random instants; what was acknowledged is there",
		module: ".", pkg: "./store/file", test: "^TestKilledProcessLosesNothingAcknowledged$", control: "mutants", args: perSecond("-kills", 2),
	},
	{
		name: "file-reads", promises: "S1, S2", what: "gets, lists and snapshots while a file store commits and makes checkpoints",
		module: ".", pkg: "./store/file", test: "^TestReadsAreOfOneMoment$", control: "mutants", args: perSecond("-commits", 10),
	},
	{
		name: "etcd-faults", promises: "S1, S2", what: "three members killed, stopped, cut off and reset; histories judged by porcupine, watches by the log",
		module: "store/etcd", pkg: ".", test: "^TestClusterUnderFaultsIsLinearizableAndItsWatchesAreGapless$", control: "TestCheckersRejectBrokenHistories",
		args: func(d time.Duration) []string { return []string{"-faults", d.String()} },
	},
	{
		name: "etcd-leases", promises: "L1, L2", what: "five servers share twelve shards, killed, suspended and sent away, on members that are killed and suspended; fencing tokens never go back, and no two trust a hold at a time",
		module: "store/etcd", pkg: ".", test: "^TestLeaseCampaign$", control: "store/storetest/campaign TestLeaseCheckerRejectsAnOldToken; store/etcd TestEtcdIsBlamedOnlyForAPromiseThatItBroke",
		args: func(d time.Duration) []string { return []string{"-leases", d.String()} },
	},
	{
		name: "etcd-shards", promises: "L2, R4, S2", what: "five processes with caches of their own shards, killed, stopped, frozen and cut off, and a leader that crashes, while objects, what they need and what they own change, come and go: each change is run, nothing that an object owned is left, and no cache shows another's object",
		module: "store/etcd", pkg: ".", test: "^TestShardedServersTakeOver$", control: "store/storetest/leasetest TestWitnessRejectsWhatServersMustNotDo; store/storetest/leasetest TestWitnessSeesAChangeThatIsNotRun",
		args: perSecond("-rounds", 0.04, "-shards", "64", "-keys", "600"),
	},
	{
		name: "postgres-shards", promises: "L2, R4, S2", what: "the same on a PostgreSQL server that crashes",
		module: "store/postgres", pkg: ".", test: "^TestShardedServersTakeOver$", control: "store/storetest/leasetest TestWitnessRejectsWhatServersMustNotDo; store/storetest/leasetest TestWitnessSeesAChangeThatIsNotRun",
		args: perSecond("-rounds", 0.04, "-shards", "64", "-keys", "600"),
	},
	{
		name: "postgres-faults", promises: "S1, S2", what: "a server killed, stopped, restarted, vacuumed and cut off; histories judged by porcupine, watches by the log",
		module: "store/postgres", pkg: ".", test: "^TestServerUnderFaultsIsLinearizableAndItsWatchesAreGapless$", control: "store/storetest/campaign TestWatchCheckerRejectsBrokenStreams",
		args: func(d time.Duration) []string { return []string{"-faults", d.String()} },
	},
	{
		name: "postgres-leases", promises: "L1, L2", what: "five processes share twelve shards, killed, frozen and sent away, on a server that crashes; fencing tokens never go back",
		module: "store/postgres", pkg: ".", test: "^TestLeaseCampaign$", control: "store/storetest/campaign TestLeaseCheckerRejectsAnOldToken",
		args: func(d time.Duration) []string { return []string{"-leases", d.String()} },
	},
	{
		name: "postgres-declares", promises: "S3", what: "declarations of growing numbers, while the processes that apply them are killed and the server ends their sessions",
		module: "store/postgres", pkg: ".", test: "^TestDeclarationsSurviveKillsBetweenAnyTwoSteps$", control: "TestDeclarationIsThereIfAndOnlyIfTheTransactionCommits",
		args: func(d time.Duration) []string { return []string{"-declares", d.String()} },
	},
	{
		name: "postgres-bloat", promises: "S1", what: "ten writes of each of many objects leave the tables within the bytes that docs/POSTGRES.md states",
		module: "store/postgres", pkg: ".", test: "^TestTablesStayWithinTheStatedBytes$", control: "TestSizeCheckRejectsATableThatIsNotVacuumed",
		args: perSecond("-bloat", 100),
	},
	{
		name: "etcd-creates", promises: "E1, L2, Q6", what: "three servers on etcd create under one quota, one is killed and one added: none twice, never above the grant, within 1.1 of what it takes",
		module: "store/etcd", pkg: ".", test: "^TestServersCreateUnderOneQuota$", control: "store/storetest/quotatest TestJudgeRejectsWhatServersMustNotDo",
		args: perSecond("-creates", 80),
	},
	{
		name: "postgres-creates", promises: "E1, L2, Q6", what: "the same on PostgreSQL",
		module: "store/postgres", pkg: ".", test: "^TestServersCreateUnderOneQuota$", control: "store/storetest/quotatest TestJudgeRejectsWhatServersMustNotDo",
		args: perSecond("-creates", 80),
	},
	{
		name: "bounds", promises: "E1, E2, Q6", what: "creates, deletes, drift, steady intervals and a restart of many resources, in calls beside what the quota allows",
		module: ".", pkg: "./reconcile/external",
		test:    "^(TestCreatesFromNothingReachTheBound|TestCreatesByAListOfNamesReachTheBound|TestDeletesReachTheBound|TestUpdatesOfDriftReachTheBound|TestDriftOfAHundredthIsMendedWithinOneList|TestSteadyDayCostsOneListAnInterval|TestRestartCostsOneListBeforeTheFirstChange)$",
		control: "TestBoundOfCreatesCatchesOneLookTooMany; TestBoundsCatchOneLookTooMany", args: perSecond("-resources", 80),
	},
	{
		name: "bounds-faults", promises: "Q6", what: "the same of creates by a cloud that asks for a pause, fails every tenth call, or grants a tenth for a while; an account that starves beside others",
		module: ".", pkg: "./reconcile/external", test: "^(TestCreatesAgainstAFailingCloudReachTheBound|TestCreatesThroughASilentCutReachTheBound|TestStarvedAccountSlowsNoOther)$",
		control: "TestCreatesAgainstAFailingCloudReachTheBound; reconcile/quota TestSilentCutOfTheQuotaIsFoundAndForgotten", args: perSecond("-resources", 80),
	},
	{
		name: "bounds-servers", promises: "E1, L2, Q6", what: "three servers in fake time create under one quota, one is killed and one added",
		module: ".", pkg: "./reconcile/external", test: "^TestServersShareTheQuotaToTheBound$", control: "store/storetest/quotatest TestJudgeRejectsWhatServersMustNotDo",
		args: perSecond("-resources", 80),
	},
	{
		name: "million", promises: "E1, E2", what: "one server of twenty accounts: calls, live heap for each resource, and the time to the first change, in fake time",
		module: ".", pkg: "./reconcile/external", test: "^TestServerOfTwentyAccountsHoldsAMillion$", control: "TestServerOfTwentyAccountsHoldsAMillion",
		args: perSecond("-resources", 80),
	},
	{
		name: "million-buckets", promises: "E1, E2", what: "the same in real time, on an S3 server, with the resident memory at its peak",
		module: "examples", pkg: "./inventory", test: "^TestAccountsInRealTime$", control: "reconcile/external TestDetailsKeepNothingOfAReplacedList",
		args: perSecond("-resources", 800),
	},
	{
		name: "night", promises: "-", what: "faults of stores, clouds and servers, by signals and by what they answer, on services that are processes, with a Prometheus that has the shipped rules: after how long the log, the page and the alerts say what is wrong, for metrics/RUNBOOK.md",
		module: "examples", pkg: "./inventory", test: "^TestNightOfFaults$", control: "TestNightRejectsAFaultThatIsNotNamed", args: campaignFlag,
	},
	{
		name: "mutants", promises: "Q1–E2", what: "every package broken in small ways: the share that its tests notice, and what they do not",
		module: "bench", pkg: "./mutants", test: "^TestMutantsOfEveryPackage$", control: "TestMutantsAreCaughtByTestsThatTellTheDifference", args: campaignFlag,
	},
	fuzz("./queue", "Model", "."),
	fuzz("./store", "Decode", "."),
	fuzz("./store", "KeepUnknownFields", "."),
	fuzz("./store", "Key", "."),
	fuzz("./store", "Selector", "."),
	fuzz("./store", "SelectorString", "."),
	fuzz("./store", "Redact", "."),
	fuzz("./store/cache", "StoredBytes", "."),
	fuzz("./store/file", "Row", "."),
	fuzz("./store/file", "Chunk", "."),
	fuzz("./store/file", "State", "."),
	fuzz("./store/file", "Cursor", "."),
	fuzz("./store/file", "Pages", "."),
	fuzz("./reconcile/webhook", "Webhook", "."),
	fuzz("./reconcile/web/debug", "Handler", "."),
	fuzz("./reconcile/lease", "Record", "."),
	fuzz("./inventory", "ParseInventory", "examples"),
}

// groups are campaigns that are one check together, by the name that the command line
// takes; docs/COST.md names those of cloud.
var groups = map[string][]string{
	"cloud": {"bounds", "bounds-faults", "bounds-servers", "million", "million-buckets", "etcd-creates", "postgres-creates", "simulation", "prunes"},
}

// tests are the names of the tests that it runs.
func (c campaign) tests() []string { return strings.Split(strings.Trim(c.test, "^()$"), "|") }

// command is what go is given.
func (c campaign) command(d time.Duration) []string {
	args := []string{"test", c.pkg, "-run", c.test, "-v", "-count", "1", "-timeout", (4*d + time.Hour).String()}
	if c.race {
		args = append(args, "-race")
	}
	return append(args, c.args(d)...)
}

func (c campaign) where() string { return path.Join(c.module, c.pkg) + " " + c.test }
