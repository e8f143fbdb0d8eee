package processortest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// Step is what comes behind a record of a history: nothing, a commit, something that undoes what is
// not committed, or a restart, which undoes nothing.
type Step string

// The steps.
const (
	GoOn    Step = "go on"
	Commit  Step = "commit"
	Crash   Step = "crash"
	Abort   Step = "abort"
	Restart Step = "restart"
)

// Steps draws one for each of n records.
func Steps(n int) *rapid.Generator[[]Step] {
	return rapid.SliceOfN(rapid.SampledFrom([]Step{GoOn, GoOn, GoOn, Commit, Crash, Abort, Restart}), n, n)
}

// CheckUndone pipes records into two of what declare declares: one that is left alone, and one with
// a step behind each record. It returns an error unless both come to the same: all that was written
// to any topic, dead letters and internal topics included, all counts, and all rows. pipe pipes
// record i; it is called once for each driver.
func CheckUndone(tb testing.TB, declare func(b *topology.Builder), steps []Step, pipe func(d *Driver, i int)) error {
	tb.Helper()
	clock := topologytest.Clock(time.Unix(1_000_000, 0)) // the records of both have the same times, and so have the failures
	alone, undone := New(tb, declare, clock), New(tb, declare, clock, topologytest.CommitByHand())
	for i, step := range steps {
		pipe(alone, i)
		pipe(undone, i)
		if err := undone.take(step); err != nil {
			return err
		}
	}
	for undone.Uncommitted() > 0 {
		if err := undone.Commit(); err != nil {
			return err
		}
	}
	if err := alone.differs(undone); err != nil {
		return fmt.Errorf("with %q behind the records, %w", steps, err)
	}
	return nil
}

// take takes a step.
func (d *Driver) take(step Step) error {
	switch step {
	case GoOn:
		return nil
	case Commit:
		return d.Commit()
	case Crash:
		return d.Crash()
	case Abort:
		return d.Abort()
	case Restart:
		return d.Driver.Restart()
	default:
		return fmt.Errorf("%q is no step", step)
	}
}

// differs returns an error that says in what the other driver differs.
func (d *Driver) differs(other *Driver) error {
	d.tb.Helper()
	for _, topic := range d.Topics() {
		want, got := d.Take(topic), other.Take(topic)
		if topic == deadTopic { // several subtopologies write it, and they do not wait for each other
			sortLetters(want)
			sortLetters(got)
		}
		for i := range max(len(want), len(got)) {
			switch {
			case i >= len(want) || i >= len(got):
				return fmt.Errorf("topic %s has %d records, want %d", topic, len(got), len(want))
			case !reflect.DeepEqual(got[i], want[i]):
				return fmt.Errorf("record %d of topic %s is %q, want %q", i, topic, got[i].Value, want[i].Value)
			}
		}
	}
	if want, got := d.Counts(), other.Counts(); !reflect.DeepEqual(got, want) {
		return fmt.Errorf("the counts are %v, want %v", got, want)
	}
	for _, store := range d.stores {
		if want, got := d.Rows(store, 0), other.Rows(store, 0); !maps.Equal(got, want) {
			return fmt.Errorf("store %s has %q, want %q", store, got, want)
		}
	}
	return nil
}

// sortLetters sorts dead letters by all that they say.
func sortLetters(letters []topologytest.Raw) {
	slices.SortFunc(letters, func(a, b topologytest.Raw) int { return strings.Compare(fmt.Sprintf("%v", a), fmt.Sprintf("%v", b)) })
}
