// Package cli is the command tend: it shows and mends the objects of a running service
// over HTTP (package reconcile/web/api), or straight on a store when the service is down.
//
//	tend -server http://localhost:8085/objects get bucket
//	tend -store file:/var/lib/shop/tend.db describe bucket prod/logs
//
// The commands:
//
//	status                         whether all is well with the service, and if not, what is wrong
//	kinds                          the kinds, and how many objects there are of each
//	events [KIND] [KEY]            what the service recorded, the newest first
//	get KIND [KEY]                 a table of objects, or one; KIND all: of all kinds
//	describe KIND KEY              one object whole: conditions, deletion, metadata, spec
//	watch KIND                     what is not as declared, then changes, until interrupted
//	apply -f FILE                  creates or changes what a file declares ("-": stdin)
//	edit KIND KEY                  opens the object in $EDITOR and stores what comes of it
//	delete, kick, pause, resume    KIND KEY ..., KIND -l LABELS or -f FILE; a pause is on every server
//	remove-finalizer KIND KEY NAME by force
//	created KIND KEY NAME          of one that stopped as CreateIncomplete: its create made NAME;
//	not-created KIND KEY           … or it made none, and is called again. Look outside first
//	adopt KIND KEY ID              takes a resource over that exists; -f FILE -yes: of lines "KEY ID"
//	forget-location, outputs-restored KIND KEY  of LocationChanged: look where the spec says; of OutputsLost: replaced by hand
//	rewrite KIND                   stores objects of earlier versions, or under older keys, again (store.Rewrite)
//	copy FROM TO KIND...           copies kinds from one store to another, and compares them
//	why KIND KEY                   why it is not as declared, or not run
//	completion bash|zsh|fish       a script that completes commands, kinds, keys and flags
//	version, help [COMMAND]        of this command; how a command is used
//
// The flags stand before or after the command; help COMMAND lists those that it takes. -server and -store
// may stand in the environment as TEND_SERVER and TEND_STORE; TEND_TOKEN is sent as a bearer token. -n is
// for keys and objects that name no namespace: "/name" and an empty meta.namespace name the empty one. A
// store is file:PATH, etcd:[https://]HOST:PORT,…[/PREFIX] or postgres:DSN; certificates, user and password
// are in the variables of etcdctl (ETCDCTL_*) and libpq (PG*). A terminal gets colours, unless NO_COLOR is
// set, and lines of 80 columns or of COLUMNS; a program gets neither. Of several objects each is tried.
//
// A file has objects in YAML or JSON, between "---", or a list of them as get prints it.
// Apply declares the spec's fields, and adds labels and annotations:
//
//	kind: bucket
//	meta: {namespace: prod, name: logs}
//	spec: {versioning: true}
//
// # Exit codes
//
//	0  done
//	1  another error; of status: the service is not well (one that is under way is done)
//	2  the command line cannot be understood
//	3  the object, kind or finalizer does not exist
//	4  the object is at another revision, exists already, or asks for no such answer
//	5  the server does not allow it
//	6  the kind refuses the object
//	7  the server or store cannot be reached
//	8  the kind's type is needed: metadata only
//
// Validation, codecs and secrets are in a kind's Go type. A service that calls [Run] with
// [Config.Kinds] writes specs on a store, too. Without, spec and status need -show-secrets.
package cli
