package hanging

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/txn/internal/broker"
)

// Search says where to look for open transactions, and what is known of them already.
type Search struct {
	// Application names the transactional ids that are the application's own.
	Application string
	// Partitions are asked for what they hold open.
	Partitions map[string][]int32
	// Logs are read for markers of what hangs, beside Partitions. They are not asked.
	Logs map[string][]int32
	// Internal are topics to which only the application writes: a producer of an open transaction
	// there is one of its own, also if no coordinator knows it any more.
	Internal map[string]bool
	// ReadOnly are topics that the application reads and does not write. Their logs are not read
	// for a producer of the application that holds nothing open there.
	ReadOnly map[string]bool
	// Absent are topics of the application that the cluster did not name: they do not exist, or the
	// broker that was asked has not heard of them. They are not looked at, see Complete.
	Absent []string
	// Wanted are the transactions of which Find looks for evidence; nil is all that may hang.
	Wanted func(producerID int64, epoch int16) bool
	// Patience bounds each of the questions of Look; 0 leaves that to the context.
	Patience time.Duration
	// Before are the coordinators' answers from before the ids were initialised, any number for
	// each id; nil if they were not asked. One about another transactional id than the one that has
	// the producer id now is not used.
	Before []broker.Named
	// Databases returns the tasks whose databases have applied the round of a transaction, and
	// those that wrote it and show that it was not committed (see Evidence). Nil knows none.
	Databases func(producerID int64, epoch int16) (applied, notApplied []string)
}

// Complete returns an error that names the topics that are not looked at because the cluster did
// not name them.
func (s Search) Complete() error {
	if len(s.Absent) == 0 {
		return nil
	}
	return fmt.Errorf("not in the cluster's answer: %s", strings.Join(s.Absent, ", "))
}

// Finding is a transaction that partitions hold open. Evidence and Decision are empty while it is
// ongoing.
type Finding struct {
	Transaction
	Evidence Evidence
	Decision Decision
}

// Partitions names the partitions that hold the transaction open.
func (f Finding) Partitions() []string {
	var out []string
	for _, open := range f.Open {
		out = append(out, fmt.Sprintf("%s[%d]", open.Topic, open.Partition))
	}
	return out
}

// Look returns the transactions that the partitions hold open, sorted by producer id and epoch,
// without evidence of how they ended but Search.Before. The error joins what was not answered. The
// transactions of partitions that have answered are returned with it; it may not be Known whether
// they hang.
func Look(ctx context.Context, c *broker.Cluster, s Search) ([]Finding, error) {
	step := func(ask func(context.Context) error) error {
		if s.Patience > 0 {
			within, cancel := context.WithTimeout(ctx, s.Patience)
			defer cancel()
			return ask(within)
		}
		return ask(ctx)
	}
	var first, again []broker.OpenTransaction
	unanswered := step(func(ctx context.Context) (err error) {
		first, err = c.OpenTransactions(ctx, s.Partitions)
		return err
	})
	if len(first) == 0 {
		return nil, unanswered
	}
	producers := map[int64]bool{}
	held := map[string][]int32{}
	for _, t := range first {
		producers[t.ProducerID] = true
		if !slices.Contains(held[t.Topic], t.Partition) {
			held[t.Topic] = append(held[t.Topic], t.Partition)
		}
	}
	var known names
	namedErr := step(func(ctx context.Context) (err error) {
		known, err = s.names(ctx, c, slices.Sorted(maps.Keys(producers)))
		return err
	})
	againErr := step(func(ctx context.Context) (err error) {
		again, err = c.OpenTransactions(ctx, held)
		return err
	})
	return s.group(first, again, known), errors.Join(unanswered, namedErr, againErr)
}

// names are what coordinators say of producer ids, and those of which it is certain that no
// transactional id has them.
type names struct {
	named map[int64]broker.Named
	gone  map[int64]bool
}

// names asks the coordinators for producer ids. With an error it returns what it knows.
//
// A coordinator that is away is missing in a list of transactions without an error. So an id that
// is not listed is gone only if there were coordinators for all transactional ids, or if the
// coordinator of the id that it had before says so. And only the application's own can be said to
// be gone: others may have a transactional id that this process may not describe.
func (s Search) names(ctx context.Context, c *broker.Cluster, producerIDs []int64) (names, error) {
	all, ledErr := c.CoordinatorsLed(ctx)
	named, err := c.NamedProducers(ctx, producerIDs...)
	out := names{named, map[int64]bool{}}
	if out.named == nil {
		out.named = map[int64]broker.Named{}
	}
	all = all && ledErr == nil && err == nil
	had := map[string][]int64{}
	for _, producerID := range producerIDs {
		if _, known := out.named[producerID]; known {
			continue
		}
		out.gone[producerID] = all
		for _, before := range s.Before {
			if before.ProducerID == producerID {
				had[before.TransactionalID] = append(had[before.TransactionalID], producerID)
			}
		}
	}
	if len(had) == 0 {
		return out, err
	}
	now, nowErr := c.Transactions(ctx, slices.Sorted(maps.Keys(had))...)
	for id, producerIDs := range had {
		tx, there := now[id]
		for _, producerID := range producerIDs {
			if there && tx.ProducerID == producerID {
				out.named[producerID] = broker.Named{TransactionalID: id, Transaction: tx}
			}
			out.gone[producerID] = nowErr == nil && (!there || tx.ProducerID != producerID)
		}
	}
	return out, errors.Join(err, nowErr)
}

// Find is Look with evidence and decisions. Logs are read only if a transaction that is wanted may
// hang, from a while before its records on. Topics that may not be read are named in the error, and
// the findings of the others are returned with it; after any other error there are none.
func Find(ctx context.Context, c *broker.Cluster, s Search) ([]Finding, error) {
	findings, unasked := Look(ctx, c, s)
	if unasked != nil && !OnlyDenied(unasked) {
		return nil, unasked
	}
	var hanging []*Finding
	for i := range findings {
		if f := findings[i]; !f.Ongoing() && (s.Wanted == nil || s.Wanted(f.ProducerID, f.Epoch)) {
			hanging = append(hanging, &findings[i])
		}
	}
	if len(hanging) > 0 {
		if err := s.collect(ctx, c, hanging); err != nil {
			return nil, err
		}
	}
	return findings, unasked
}

// group makes transactions of what both looks have seen open.
func (s Search) group(first, again []broker.OpenTransaction, names names) []Finding {
	type key struct {
		producerID int64
		epoch      int16
	}
	found := map[key]*Finding{}
	for _, open := range first {
		if !slices.ContainsFunc(again, open.Same) {
			continue // it has ended, or another one has begun
		}
		k := key{open.ProducerID, open.Epoch}
		f := found[k]
		if f == nil {
			f = &Finding{Transaction: Transaction{ProducerID: open.ProducerID, Epoch: open.Epoch}}
			if n, known := names.named[open.ProducerID]; known {
				f.Named = &n
				f.Own = strings.HasPrefix(n.TransactionalID, broker.TransactionalPrefix(s.Application))
			}
			for _, before := range s.Before {
				if before.ProducerID == open.ProducerID && (f.Named == nil || f.Named.TransactionalID == before.TransactionalID) {
					f.Evidence.Before, f.Own = append(f.Evidence.Before, before.Transaction), true
				}
			}
			found[k] = f
		}
		f.Own = f.Own || s.Internal[open.Topic]
		f.Open = append(f.Open, open)
	}
	var out []Finding
	for _, f := range found {
		f.Gone = f.Named == nil && f.Own && names.gone[f.ProducerID]
		slices.SortStableFunc(f.Open, func(a, b broker.OpenTransaction) int { return stage(a) - stage(b) })
		out = append(out, *f)
	}
	slices.SortFunc(out, func(a, b Finding) int {
		if a.ProducerID != b.ProducerID {
			if a.ProducerID < b.ProducerID {
				return -1
			}
			return 1
		}
		return int(a.Epoch) - int(b.Epoch)
	})
	return out
}

// in reports whether a partition of the topic holds it open.
func (f *Finding) in(topic string) bool {
	return slices.ContainsFunc(f.Open, func(open broker.OpenTransaction) bool { return open.Topic == topic })
}

// stage orders a repair: committed offsets are the last.
func stage(t broker.OpenTransaction) int {
	if t.Topic == broker.OffsetsTopic {
		return 1
	}
	return 0
}
