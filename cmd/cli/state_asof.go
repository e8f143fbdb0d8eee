package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/admin"
)

// asOfFlag chooses a time of the history of a versioned store.
type asOfFlag struct {
	AsOf string `placeholder:"TIME" help:"Show what the key had at this time, in a versioned store: a time such as 2026-01-31T08:00:00Z, milliseconds since the epoch, or how long ago, such as 2h."`
}

// moment returns the chosen time, nil for none. It refuses a store without a history.
func (f asOfFlag) moment(store string, l state.Layout) (*time.Time, error) {
	if f.AsOf == "" {
		return nil, nil //nolint:nilnil // the flag is not given
	}
	if l.Kind != state.VersionedKind {
		return nil, usage("--as-of: store %s is a %s store, and only a versioned store has a history; remove --as-of", store, l.Kind)
	}
	at, err := timeOf("--as-of", f.AsOf)
	return &at, err
}

// asOf is the lookup of a time in the versions of a key. It answers as state.Versioned.GetAsOf.
type asOf struct {
	layout state.Layout
	// time and now are in milliseconds since the epoch. now is the stream time of the store.
	time, now int64
}

// asOfIn is the lookup in a store whose state is at.
func asOfIn(store string, l state.Layout, t time.Time, at admin.At) asOf {
	x := asOf{layout: l, time: t.UnixMilli(), now: t.UnixMilli()}
	for _, c := range at.Positions.Changelogs {
		if c.Store == store {
			x.now = c.StreamTime
		}
	}
	return x
}

// beforeHistory reports whether only the latest version of a key is known at the time.
func (x asOf) beforeHistory() bool { return !x.layout.Live(x.time, x.now) }

// find returns the version of a key that was valid at the time, as one row, or no row. versions are
// all rows of the key, oldest first.
func (x asOf) find(versions []state.Entry) []state.Entry {
	if x.beforeHistory() && len(versions) > 0 {
		versions = versions[len(versions)-1:]
	}
	var valid []state.Entry
	for _, e := range versions {
		p, err := x.layout.Parts(e.Key, e.Value)
		switch {
		case err != nil:
			return []state.Entry{e} // the operator should see it
		case p.ValidFrom > x.time:
		case p.Value == nil:
			valid = nil
		default:
			valid = []state.Entry{e}
		}
	}
	return valid
}

// absentAt says that a key had no value at a time in the partitions, and where that is not known.
func absentAt(store string, t time.Time, partitions, before []int32) error {
	var unknown strings.Builder
	if len(before) > 0 {
		fmt.Fprintf(&unknown, "; the history of partition %s begins later, and has at this time only versions that are still the latest", numbers(before))
	}
	return fmt.Errorf("store %s had no value of the key at %s in partition %s%s", store, momentText(t.UnixMilli()), numbers(partitions), unknown.String())
}
