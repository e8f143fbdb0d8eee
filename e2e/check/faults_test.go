package check_test

import (
	"slices"
	"testing"

	"github.com/onceward/onceward/e2e/check"
)

// nth returns the index of the nth event of a reader and topic that is about records of a committed
// transaction or none.
func nth(t *testing.T, events []check.Event, reader, topic string, n int) int {
	t.Helper()
	for i, e := range events {
		// The transaction of producer 101 with epoch 0 is the aborted one.
		if e.Read != nil && e.Read.Reader == reader && e.Read.Topic == topic && e.Read.Txn != (check.Txn{Producer: 101}) {
			if n == 0 {
				return i
			}
			n--
		}
	}
	t.Fatalf("there is no such event of %s in %s", reader, topic)
	return 0
}

func dropRead(reader, topic string, n int) fault {
	return func(t *testing.T, events []check.Event) []check.Event {
		i := nth(t, events, reader, topic, n)
		return slices.Delete(events, i, i+1)
	}
}

func changeRead(reader, topic string, n int, change func(*check.Records)) fault {
	return func(t *testing.T, events []check.Event) []check.Event {
		change(events[nth(t, events, reader, topic, n)].Read)
		return events
	}
}

// addRead adds records to the log, in a transaction that is committed, and to the follower.
func addRead(r check.Records) fault {
	return func(_ *testing.T, events []check.Event) []check.Event {
		log, follower := r, r
		log.Reader, follower.Reader = check.LogReader, "follower"
		changelog := check.Records{
			Reader: check.LogReader, Topic: sumsLog, Txn: r.Txn, Offsets: []int64{50}, Keys: []uint64{9}, Values: []uint64{9},
		}
		extra := []check.Event{{Read: &log}, {Marker: &check.Marker{Topic: r.Topic, Offset: 51, Producer: r.Producer, Commit: true}},
			{Read: &follower}}
		if r.Topic == balances {
			seen := changelog
			seen.Reader = "follower"
			extra = append(extra, check.Event{Read: &seen})
			extra = append(extra, check.Event{Read: &changelog},
				check.Event{Marker: &check.Marker{Topic: sumsLog, Offset: 51, Producer: r.Producer, Commit: true}})
		}
		for i := range extra {
			extra[i].At = events[len(events)-1].At
		}
		return append(events, extra...)
	}
}

func readAborted(t *testing.T, events []check.Event) []check.Event {
	for i, e := range events {
		if e.Read != nil && e.Read.Topic == copied && e.Read.Txn == (check.Txn{Producer: 101}) {
			got := *e.Read
			got.Reader = "follower"
			return slices.Insert(events, i+1, check.Event{At: e.At, Read: &got})
		}
	}
	t.Fatal("nothing was aborted")
	return nil
}

// changeTxn puts one output into a transaction of its own.
func changeTxn(t *testing.T, events []check.Event) []check.Event {
	i := nth(t, events, check.LogReader, copied, 1)
	r := events[i].Read
	r.Txn = check.Txn{Producer: 300}
	return slices.Insert(events, i+1,
		check.Event{Marker: &check.Marker{Topic: copied, Offset: r.Offsets[0], Producer: 300, Commit: true}})
}

func positionOutside(_ *testing.T, events []check.Event) []check.Event {
	for i, e := range events {
		if e.Position != nil && e.Position.Producer == 100 {
			events[i].Position.Txn = check.NoTxn
		}
	}
	return events
}

func positionBack(_ *testing.T, events []check.Event) []check.Event {
	return append(events, check.Event{Position: &check.Position{Topic: in, Offset: 100, Next: 1, Txn: check.NoTxn}})
}

func changeMarker(topic string, change func(*check.Marker)) fault {
	return func(t *testing.T, events []check.Event) []check.Event {
		for _, e := range events {
			if e.Marker != nil && e.Marker.Topic == topic && e.Marker.Commit {
				change(e.Marker)
				return events
			}
		}
		t.Fatal("there is no marker")
		return nil
	}
}

// dropMarker leaves the last transaction of the copies open.
func dropMarker(_ *testing.T, events []check.Event) []check.Event {
	for i, e := range slices.Backward(events) {
		if e.Marker != nil && e.Marker.Topic == copied {
			return slices.Delete(events, i, i+1)
		}
	}
	return events
}

// precommitted makes the second half's first transaction that of the first half, in all its logs.
func precommitted(_ *testing.T, events []check.Event) []check.Event {
	for i, e := range events {
		switch {
		case e.Read != nil && e.Read.Producer == 200:
			e.Read.Txn = check.Txn{Producer: 100}
		case e.Position != nil && e.Position.Producer == 200:
			e.Position.Txn = check.Txn{Producer: 100}
		case e.Marker != nil && e.Marker.Producer == 200:
			events[i].Marker.Producer = 100
		}
	}
	return events
}

func repeatRead(t *testing.T, events []check.Event) []check.Event {
	again := events[nth(t, events, "follower", copied, 0)]
	at := nth(t, events, "follower", copied, 3)
	again.At = events[at].At
	return slices.Insert(events, at+1, again)
}

// dropPositionsAndOutputs forgets the last transaction of the second half.
func dropPositionsAndOutputs(_ *testing.T, events []check.Event) []check.Event {
	return slices.DeleteFunc(events, func(e check.Event) bool {
		return e.Read != nil && e.Read.Producer == 201 || e.Position != nil && e.Position.Producer == 201 ||
			e.Marker != nil && e.Marker.Producer == 201 || e.State != nil && e.State.Store == "counts"
	})
}

// swapOutputs exchanges two copies of one transaction, for all readers.
func swapOutputs(t *testing.T, events []check.Event) []check.Event {
	for _, reader := range []string{check.LogReader, "follower"} {
		a, b := events[nth(t, events, reader, copied, 0)].Read, events[nth(t, events, reader, copied, 1)].Read
		a.IDs, b.IDs = b.IDs, a.IDs
	}
	return events
}

func changeState(store string, change func(*check.State)) fault {
	return func(t *testing.T, events []check.Event) []check.Event {
		for _, e := range slices.Backward(events) {
			if e.State != nil && e.State.Store == store {
				change(e.State)
				return events
			}
		}
		t.Fatal("there is no such state")
		return nil
	}
}

// stuck samples a partition that stays behind for 30 s without an end. A gap of samples, as by a
// broker that is down, starts anew.
func stuck(_ *testing.T, events []check.Event) []check.Event {
	at := events[len(events)-1].At
	for range 31 {
		events = append(events, check.Event{At: at, Log: &check.Sample{Topic: copied, Partition: 1, Stable: 5, End: 9}})
		at += 1000
	}
	for range 20 {
		events = append(events, check.Event{At: at, Log: &check.Sample{Topic: copied, Partition: 2, Stable: 5, End: 9}})
		at += 1000
	}
	for range 20 {
		at += 1000
		events = append(events, check.Event{At: at + 10_000, Log: &check.Sample{Topic: copied, Partition: 2, Stable: 5, End: 9}})
	}
	return events
}
