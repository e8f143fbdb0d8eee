package workload

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"

	"github.com/onceward/onceward/processors/evidence"
)

// EvidenceTopic is where a workload with evidence writes it, beside its output.
func EvidenceTopic(out string) string { return out + "-evidence" }

// Audit judges the evidence of a workload that keeps it, of all partitions: one entry for each
// decision about each record that was processed, in the order of each row, and no other. It belongs
// to one goroutine.
type Audit struct {
	seed maphash.Seed
	// application and in are what every entry has to be of.
	application, in string
	// read and want are the sums of hashes of entries. Two sets of entries with one number and one
	// digest are taken to be one set.
	read, want auditTally
	// versions are those that the rows of the ledger have come to.
	versions map[Account]int64
	// processed is for each partition of the input the offset behind the last one that was decided
	// about.
	processed map[int32]int64
	sums      map[Account]int64
	seen      map[[IDBytes]byte]struct{}
}

type auditTally struct {
	entries int64
	digest  uint64
}

// fact is what is judged of an entry.
type fact struct {
	node, outcome, store, row, subject string
	before, after                      int64
	partition                          int32
	offset, time                       int64
}

// NewAudit returns the judge of the evidence that an application has written of the topic in. An
// empty application is the one of the first entry.
func NewAudit(application, in string) *Audit {
	return &Audit{
		seed: maphash.MakeSeed(), application: application, in: in,
		versions: map[Account]int64{}, processed: map[int32]int64{}, sums: map[Account]int64{}, seen: map[[IDBytes]byte]struct{}{},
	}
}

// What can be wrong with evidence.
var (
	errEntry   = errors.New("the entry is not one of this run")
	errVersion = errors.New("the version of the row is not the one after that of the entry before")
	errFacts   = errors.New("the evidence is not that of the inputs")
)

// Entry takes a record of the evidence. Those of a partition come in their order, and all of them
// before the inputs.
func (a *Audit) Entry(r Record) error {
	e, err := evidence.Decode(r.Key, r.Value)
	if err != nil {
		return fmt.Errorf("reading the entry: %w", err)
	}
	if a.application == "" {
		a.application = e.Application
	}
	if e.Application != a.application || e.Topic != a.in || e.Mode != "LIVE" || e.Attempt != 1 || e.Version == "" || e.Reason != "" {
		return errEntry
	}
	if e.Before != nil && e.After != nil {
		if len(e.Row) != KeyBytes {
			return errEntry
		}
		account := Account(e.Row)
		if *e.Before != a.versions[account] || *e.After != *e.Before+1 {
			return errVersion
		}
		a.versions[account] = *e.After
	}
	a.processed[e.Partition] = max(a.processed[e.Partition], e.Offset+1)
	a.read.add(a.seed, fact{
		e.Node, e.Outcome, e.Store, string(e.Row), e.Subject, deref(e.Before), deref(e.After), e.Partition, e.Offset, e.Time,
	})
	return nil
}

func deref(version *int64) int64 { return *cmp.Or(version, new(int64(-1))) }

func (t *auditTally) add(seed maphash.Seed, f fact) {
	t.entries++
	t.digest += maphash.Comparable(seed, f)
}

// Input takes the next record of a partition of the input, and leaves those out that nothing was
// decided about.
func (a *Audit) Input(in Record, partition int32, offset int64) error {
	if offset >= a.processed[partition] {
		return nil
	}
	e, err := DecodeEvent(in.Key, in.Value)
	if err != nil {
		return err
	}
	f := fact{
		node: inboxStore, outcome: "duplicates", store: inboxStore, row: string(e.ID[:]), subject: string(e.ID[:]),
		before: -1, after: -1, partition: partition, offset: offset, time: in.Timestamp,
	}
	if _, duplicate := a.seen[e.ID]; duplicate {
		a.want.add(a.seed, f)
		return nil
	}
	a.seen[e.ID] = struct{}{}
	f.outcome = "accepted"
	a.want.add(a.seed, f)
	f.node, f.store, f.row, f.subject = ledgerName, balanceStore, string(e.Account[:]), contributionID(in.Value)
	f.before, f.after = a.sums[e.Account], a.sums[e.Account]+1
	a.sums[e.Account]++
	a.want.add(a.seed, f)
	return nil
}

// Done says whether the evidence was that of the inputs, and returns how many entries there are,
// and how many events they tell of as posted: as many as there are outputs.
func (a *Audit) Done() (entries, posted int64, err error) {
	if a.read != a.want {
		return 0, 0, fmt.Errorf("%w: there are %d entries, and %d have to be", errFacts, a.read.entries, a.want.entries)
	}
	return a.read.entries, int64(len(a.seen)), nil
}
