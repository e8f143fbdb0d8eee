package check_test

import (
	"iter"
	"slices"
	"time"

	"github.com/onceward/onceward/e2e/check"
)

// The topics of the application that is played here: it copies, accepts each message once, keeps
// totals by key, repartitions, and keeps totals by the other key.
const (
	in, copied, repeated, dead, balances, repartition, counts = "in", "copied", "repeated", "dead", "balances", "rp", "counts"
	sumsLog, idsLog, countsLog                                = "sums-log", "ids-log", "counts-log"
)

func spec() check.Spec {
	return check.Spec{
		Input: in, Repartition: repartition, OpenMax: 25 * time.Second,
		Outputs: []check.Output{
			{Topic: copied, From: in, Which: check.Deliveries, By: check.ByPartition},
			{Topic: repeated, From: in, Which: check.Repeats, By: check.ByKey},
			{Topic: dead, From: in, Which: check.Poison, By: check.ByKey},
			{Topic: balances, From: in, Which: check.Messages, By: check.ByKey, Totals: true, Store: "sums"},
			{Topic: repartition, From: in, Which: check.Messages, By: check.ByOther},
			{Topic: counts, From: repartition, Which: check.Messages, By: check.ByOther, Totals: true, Store: "counts"},
		},
		Stores: []check.Store{
			{Name: "sums", Changelog: sumsLog, From: in, By: check.ByKey},
			{Name: "ids", Changelog: idsLog, From: in, IDs: true},
			{Name: "counts", Changelog: countsLog, From: repartition, By: check.ByOther},
		},
	}
}

// application plays a correct application on logs of one partition each and records the history of
// it.
type application struct {
	events []check.Event
	now    int64
	ends   map[string]int64
	epochs map[int64]int16
	inputs []played
	// sums and counts are committed state, seen the messages that were accepted.
	sums, counts map[uint32]check.Total
	seen         []uint32
	queue        []played // records of the repartition topic
	changelogs   map[string]map[uint64]uint64
}

type played struct {
	id, message, key, other uint32
	amount                  int64
	poison                  bool
}

func newApplication() *application {
	return &application{
		ends: map[string]int64{}, epochs: map[int64]int16{}, sums: map[uint32]check.Total{}, counts: map[uint32]check.Total{},
		changelogs: map[string]map[uint64]uint64{sumsLog: {}, idsLog: {}, countsLog: {}},
	}
}

func (a *application) add(e check.Event) {
	a.now += 10
	e.At = a.now
	a.events = append(a.events, e)
}

// send produces inputs with the ids that follow.
func (a *application) send(outcome check.Outcome, inputs ...played) {
	s := &check.Sent{First: uint32(len(a.inputs)) + 1, Outcome: outcome}
	log := &check.Records{Reader: check.LogReader, Topic: in, Txn: check.NoTxn}
	for _, p := range inputs {
		a.inputs = append(a.inputs, p)
		s.Message, s.Key, s.Other = append(s.Message, p.message), append(s.Key, p.key), append(s.Other, p.other)
		s.Amount = append(s.Amount, p.amount)
		if p.poison {
			s.Poison = append(s.Poison, p.id)
		}
		log.Offsets, log.IDs = append(log.Offsets, a.ends[in]), append(log.IDs, p.id)
		a.ends[in]++
	}
	a.add(check.Event{Sent: s})
	a.add(check.Event{Read: log})
}

// round is one transaction that is being written.
type round struct {
	a       *application
	txn     check.Txn
	touched []string
	follow  []*check.Records
}

func (a *application) begin(producer int64) *round {
	r := &round{a: a, txn: check.Txn{Producer: producer, Epoch: a.epochs[producer]}}
	a.epochs[producer]++
	return r
}

func (r *round) write(rec check.Records) {
	rec.Reader, rec.Txn = check.LogReader, r.txn
	n := max(len(rec.IDs), len(rec.Keys))
	for range n {
		rec.Offsets = append(rec.Offsets, r.a.ends[rec.Topic])
		r.a.ends[rec.Topic]++
	}
	r.a.add(check.Event{Read: &rec})
	if !slices.Contains(r.touched, rec.Topic) {
		r.touched = append(r.touched, rec.Topic)
	}
	followed := rec
	followed.Reader = "follower"
	r.follow = append(r.follow, &followed)
}

// end commits a position and writes the markers; the follower sees what is committed.
func (r *round) end(commit bool, topic string, next int64) {
	r.a.add(check.Event{Position: &check.Position{Topic: topic, Offset: r.a.ends[check.OffsetsTopic], Next: next, Txn: r.txn}})
	r.a.ends[check.OffsetsTopic]++
	for _, t := range append(r.touched, check.OffsetsTopic) {
		r.a.add(check.Event{Marker: &check.Marker{Topic: t, Offset: r.a.ends[t], Producer: r.txn.Producer, Commit: commit}})
		r.a.ends[t]++
	}
	if commit {
		for _, f := range r.follow {
			r.a.add(check.Event{Read: f})
		}
	}
}

// first processes inputs [from, to) of the first half in one transaction.
func (a *application) first(producer int64, from, to int, commit bool) {
	r := a.begin(producer)
	sums, seen, queue := map[uint32]check.Total{}, slices.Clone(a.seen), slices.Clone(a.queue)
	for k, v := range a.sums {
		sums[k] = v
	}
	for _, p := range a.inputs[from:to] {
		switch {
		case p.poison:
			r.write(check.Records{Topic: dead, IDs: []uint32{p.id}})
			continue
		case slices.Contains(seen, p.message):
			r.write(check.Records{Topic: repeated, IDs: []uint32{p.id}})
		default:
			seen, queue = append(seen, p.message), append(queue, p)
			t := sums[p.key]
			t = check.Total{Key: p.key, Count: t.Count + 1, Sum: t.Sum + p.amount}
			sums[p.key] = t
			r.write(check.Records{Topic: balances, IDs: []uint32{p.id}, Counts: []int64{t.Count}, Sums: []int64{t.Sum}})
			r.write(check.Records{Topic: repartition, IDs: []uint32{p.id}})
			r.write(entry(sumsLog, uint64(p.key), uint64(t.Sum)))
			r.write(entry(idsLog, uint64(p.message), 1))
		}
		r.write(check.Records{Topic: copied, IDs: []uint32{p.id}})
	}
	r.end(commit, in, int64(to))
	if commit {
		a.sums, a.seen, a.queue = sums, seen, queue
	}
}

// second processes the repartitioned records that are left, in one transaction. Offsets of that
// topic have gaps where markers are.
func (a *application) second(producer int64) {
	r := a.begin(producer)
	for _, p := range a.queue {
		t := a.counts[p.other]
		t = check.Total{Key: p.other, Count: t.Count + 1, Sum: t.Sum + p.amount}
		a.counts[p.other] = t
		r.write(check.Records{Topic: counts, IDs: []uint32{p.id}, Counts: []int64{t.Count}, Sums: []int64{t.Sum}})
		r.write(entry(countsLog, uint64(p.other), uint64(t.Sum)))
	}
	a.queue = nil
	r.end(true, repartition, a.ends[repartition])
}

func entry(topic string, key, value uint64) check.Records {
	return check.Records{Topic: topic, Keys: []uint64{key + 1}, Values: []uint64{value + 1}}
}

// dump records the state of all stores as it is committed now.
func (a *application) dump(source string) {
	a.add(check.Event{State: a.state("sums", sumsLog, in, source, a.sums)})
	a.add(check.Event{State: a.state("counts", countsLog, repartition, source, a.counts)})
	ids := a.state("ids", idsLog, in, source, nil)
	for _, m := range a.seen {
		ids.IDs ^= check.HashID(m)
	}
	a.add(check.Event{State: ids})
}

func (a *application) state(store, changelog, from, source string, totals map[uint32]check.Total) *check.State {
	s := &check.State{Store: store, Source: source, Applied: a.ends[changelog]}
	for _, p := range a.events {
		if p.Position != nil && p.Position.Topic == from {
			s.Next = p.Position.Next // the last one; a dump is made after a commit
		}
	}
	latest := map[uint64]uint64{}
	for _, e := range a.events {
		if e.Read == nil || e.Read.Reader != "follower" || e.Read.Topic != changelog {
			continue
		}
		for i, k := range e.Read.Keys {
			latest[k] = e.Read.Values[i]
		}
	}
	for k, v := range latest {
		s.Digest ^= check.HashEntry(k, v)
		s.Rows++
	}
	for _, t := range totals {
		s.Totals = append(s.Totals, t)
	}
	return s
}

// history plays a whole life: two rounds of the first half with an aborted one between, repeats,
// poison, an input whose producing was not answered and that is not there, and dumps after each
// part.
func history() *application {
	a := newApplication()
	a.send(check.OK,
		played{id: 1, message: 1, key: 1, other: 7, amount: 10},
		played{id: 2, message: 2, key: 2, other: 7, amount: 20},
		played{id: 3, message: 1, key: 1, other: 7, amount: 10})
	a.first(100, 0, 2, true)
	a.dump("early")
	a.first(101, 2, 3, false)
	a.send(check.OK,
		played{id: 4, message: 4, key: 1, other: 8, amount: -3},
		played{id: 5, message: 5, key: 2, other: 8, poison: true})
	a.send(check.Unknown, played{id: 6, message: 2, key: 2, other: 7, amount: 20})
	a.add(check.Event{Sent: &check.Sent{
		First: 7, Outcome: check.Unknown, Message: []uint32{7}, Key: []uint32{1}, Other: []uint32{7}, Amount: []int64{1},
	}})
	a.second(200)
	a.first(101, 2, 6, true)
	a.dump("after kill")
	a.second(201)
	a.add(check.Event{Log: &check.Sample{Topic: copied, Stable: a.ends[copied], End: a.ends[copied]}})
	a.add(check.Event{Fault: &check.Fault{What: "kill", Who: "i1"}})
	a.add(check.Event{Quiesced: &struct{}{}})
	a.dump("end")
	return a
}

func run(events []check.Event) (*check.Report, error) {
	return check.Run(spec(), func() iter.Seq2[check.Event, error] {
		return func(yield func(check.Event, error) bool) {
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
		}
	})
}
