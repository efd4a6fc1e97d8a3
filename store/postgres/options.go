package postgres

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"
)

// Options of Open. Nil and zero fields mean the stated defaults.
type Options struct {
	// Schema is the PostgreSQL schema that holds the tables and functions, so that a
	// store can live in the database of a service, and several in one database. It
	// consists of at most 40 lower-case letters, digits and underscores and does not
	// begin with a digit. "" means "tend".
	Schema string
	// Timeout bounds every request to the server, with its retries. 0 means 5 s. An upgrade
	// of the schema, and each part of a trim of the log, may take ten times as long.
	Timeout time.Duration
	// batch is the greatest number of Commits that share one transaction, at most
	// 1,000. 0 means 128, 1 gives each Commit its own transaction.
	batch int
	// NoNotify turns LISTEN and NOTIFY off. Watches then depend on Poll alone. It is
	// for poolers in transaction mode, which do not carry LISTEN.
	NoNotify bool
	// poll is the time between two looks at the log while no notification arrives;
	// it bounds how late a watch is when one was lost. 0 means 1 s, and 50 ms with
	// NoNotify.
	poll time.Duration
	// HistoryAge is how long the log of changes is kept. A watch that is resumed after
	// more than that gets [store.ErrCompacted]. 0 means 10 minutes.
	HistoryAge time.Duration
	// HistoryBytes is the size of the log above which older changes are dropped
	// before HistoryAge. 0 means 256 MiB.
	HistoryBytes int64
	// logger gets state changes: a lost connection for notifications, watches that stand
	// still, a failover, a failed trim. Nil means slog.Default().
	logger *slog.Logger
}

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`)

func (o *Options) withDefaults() (Options, error) {
	var v Options
	if o != nil {
		v = *o
	}
	if v.Schema == "" {
		v.Schema = "tend"
	}
	if v.Timeout == 0 {
		v.Timeout = 5 * time.Second
	}
	if v.batch == 0 {
		v.batch = 128
	}
	if v.poll == 0 {
		v.poll = time.Second
		if v.NoNotify {
			v.poll = 50 * time.Millisecond
		}
	}
	if v.HistoryAge == 0 {
		v.HistoryAge = 10 * time.Minute
	}
	if v.HistoryBytes == 0 {
		v.HistoryBytes = 256 << 20
	}
	if v.logger == nil {
		v.logger = slog.Default()
	}
	switch {
	case !schemaName.MatchString(v.Schema):
		return v, fmt.Errorf("postgres: schema %q is not a lower-case name of at most 40 letters, digits and underscores", v.Schema)
	case v.Timeout < 0 || v.poll < 0 || v.HistoryAge < 0 || v.HistoryBytes < 0:
		return v, errors.New("postgres: a negative option")
	case v.batch < 1 || v.batch > 1000:
		return v, fmt.Errorf("postgres: batch of %d is not between 1 and 1000", v.batch)
	}
	return v, nil
}
