package check

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Kind is the name of a predicate.
type Kind string

// The anomalies; the package documentation says what each one is.
const (
	Lost         Kind = "lost"
	Duplicate    Kind = "duplicate"
	Phantom      Kind = "phantom"
	AbortedRead  Kind = "aborted read"
	Torn         Kind = "torn"
	Inconsistent Kind = "inconsistent"
	Precommitted Kind = "precommitted"
	NonMonotonic Kind = "nonmonotonic"
	Skip         Kind = "skip"
	Unseen       Kind = "unseen"
	Order        Kind = "order"
	StateDiffers Kind = "state"
	DedupeLeak   Kind = "dedupe leak"
	Ledger       Kind = "ledger"
	Stuck        Kind = "stuck"
)

// Kinds are all anomalies.
var Kinds = []Kind{
	Lost, Duplicate, Phantom, AbortedRead, Torn, Inconsistent, Precommitted, NonMonotonic, Skip, Unseen, Order, StateDiffers, DedupeLeak,
	Ledger, Stuck,
}

// Anomaly is one finding.
type Anomaly struct {
	Kind      Kind
	Topic     string // or the store
	Partition int32
	Offset    int64  // -1 where none is meant
	ID        uint32 // 0 where none is meant
	Detail    string
}

func (a Anomaly) String() string {
	s := fmt.Sprintf("%s: %s[%d]", a.Kind, a.Topic, a.Partition)
	if a.Offset >= 0 {
		s += fmt.Sprintf(" offset %d", a.Offset)
	}
	if a.ID > 0 {
		s += fmt.Sprintf(" input %d", a.ID)
	}
	return s + ": " + a.Detail
}

// Report is what [Run] found.
type Report struct {
	// Counts has the number of anomalies of each kind; the first of each kind, examplesMax at most,
	// are in Examples.
	Counts   map[Kind]int64
	Examples []Anomaly
	// Inputs are the inputs in the log, Committed and Aborted the transactions that ended so, Reads
	// the records that readers other than the log got, and States the stores that were compared. A
	// judgement without any of them has judged nothing.
	Inputs, Committed, Aborted, Reads, States int64
	// Outputs are the committed records of each output topic, in the order of the Spec.
	Outputs []int64
	// Sizes are the numbers of records of the first output in each committed transaction that has
	// any, ascending.
	Sizes []int
	// LongestPause is the longest time in milliseconds that a follower of a partition of the first
	// output waited for the next record.
	LongestPause int64
}

// examplesMax is how many anomalies of a kind are kept.
const examplesMax = 20

// Anomalies is the number of all anomalies.
func (r *Report) Anomalies() int64 {
	var n int64
	for _, c := range r.Counts {
		n += c
	}
	return n
}

// String lists the counts and the examples.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d inputs, %d committed and %d aborted transactions, %d records followed, %d stores compared, %d anomalies\n",
		r.Inputs, r.Committed, r.Aborted, r.Reads, r.States, r.Anomalies())
	for _, k := range Kinds {
		if n := r.Counts[k]; n > 0 {
			fmt.Fprintf(&b, "  %-12s %d\n", k, n)
		}
	}
	for _, a := range r.Examples {
		fmt.Fprintf(&b, "  %s\n", a)
	}
	return b.String()
}

// predicate judges a history that is shown to it once, with the index of the whole.
type predicate interface {
	see(e *Event)
	end()
}

// judge is what predicates share.
type judge struct {
	*index
	report *Report
}

func (j *judge) found(a Anomaly) {
	j.report.Counts[a.Kind]++
	if j.report.Counts[a.Kind] <= examplesMax {
		j.report.Examples = append(j.report.Examples, a)
	}
}

// Run judges a history. It calls history twice, for the two passes over the same events. An error
// is one of reading; anomalies are in the report.
func Run(spec Spec, history func() iter.Seq2[Event, error]) (*Report, error) {
	ix := newIndex(spec)
	for e, err := range history() {
		if err != nil {
			return nil, err
		}
		ix.see(&e)
	}
	ix.complete()
	report := &Report{Counts: map[Kind]int64{}, Outputs: make([]int64, len(spec.Outputs))}
	j := &judge{index: ix, report: report}
	predicates := []predicate{
		newVisible(j), newTorn(j), newReaders(j), newOrder(j), newTotals(j), newStates(j), newStuck(j), &counter{judge: j},
	}
	for e, err := range history() {
		if err != nil {
			return nil, err
		}
		for _, p := range predicates {
			p.see(&e)
		}
	}
	for _, p := range predicates {
		p.end()
	}
	slices.SortStableFunc(report.Examples, func(a, b Anomaly) int { return strings.Compare(string(a.Kind), string(b.Kind)) })
	return report, nil
}

// committed says whether a record of the log is committed where it stands.
func (ix *index) committed(r *Records, i int) bool {
	return ix.at(r.Topic, r.Partition, r.Offsets[i]) == r.content(i)
}

// counter fills in the figures of the report.
type counter struct{ *judge }

func (c *counter) see(e *Event) {
	switch {
	case e.Read != nil && e.Read.Reader != LogReader:
		c.report.Reads += int64(len(e.Read.Offsets))
	case e.State != nil:
		c.report.States++
	}
}

func (c *counter) end() {
	for _, t := range c.txns {
		if t.committed {
			c.report.Committed++
		}
		if t.aborted {
			c.report.Aborted++
		}
		if t.size > 0 {
			c.report.Sizes = append(c.report.Sizes, t.size)
		}
	}
	slices.Sort(c.report.Sizes)
	for _, p := range c.places[c.spec.Input] {
		if p.offset >= 0 {
			c.report.Inputs++
		}
	}
}
