package txn_test

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

const kindsRetention = 30 * time.Minute

var (
	kindsIn     = topology.Topic("in", schemas.String(), schemas.String())
	kindsLast   = topology.TimestampedStore("last", schemas.String(), schemas.String())
	kindsPrices = topology.VersionedStore("prices", schemas.String(), schemas.String(), kindsRetention)
	kindsSeen   = topology.DedupeStore("seen", schemas.String(), schemas.String(), kindsRetention)
)

// kindsTopology keeps what comes in in a store of each kind; a value that begins with "delete"
// deletes.
func kindsTopology(t *testing.T) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("kinds")
	n := topology.Stateful(topology.From(b, kindsIn), "keep", kindsLast, kindsPrices, kindsSeen)
	n.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		last, prices, seen := kindsLast.In(t), kindsPrices.In(t), kindsSeen.In(t)
		return func(_ *topology.Context, r topology.Record[string, string]) error {
			if strings.HasPrefix(r.Value, "delete") {
				if err := last.Delete(r.Key); err != nil {
					return err
				}
				if _, err := prices.Delete(r.Key, r.Timestamp); err != nil {
					return err
				}
				_, err := seen.Delete(r.Key)
				return err
			}
			if err := last.Put(r.Key, r.Value, r.Timestamp); err != nil {
				return err
			}
			if _, err := prices.Put(r.Key, r.Value, r.Timestamp); err != nil {
				return err
			}
			_, presence, err := seen.PutIfAbsent(r.Key, r.Value, r.Timestamp)
			if err == nil && presence == state.Present {
				_, err = seen.Update(r.Key, r.Value)
			}
			return err
		}, nil
	})
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// kindsContent is what can be seen of the three stores.
type kindsContent struct{ last, prices, history, seen string }

func readKinds(t *testing.T, app *txn.App) (c kindsContent) {
	t.Helper()
	c.last = readStore(t, app, kindsLast, func(s state.Timestamped[string, string]) string { return lines(t, s.All()) })
	c.prices = readStore(t, app, kindsPrices, func(s state.Versioned[string, string]) string { return lines(t, s.All()) })
	c.history = readStore(t, app, kindsPrices, func(s state.Versioned[string, string]) string {
		var all []string
		for i := range kindsKeys {
			all = append(all, lines(t, s.History(fmt.Sprintf("k%d", i), 0, math.MaxInt64)))
		}
		return strings.Join(all, "\n")
	})
	c.seen = readStore(t, app, kindsSeen, func(s state.Dedupe[string, string]) string { return lines(t, s.All()) })
	return c
}

func readStore[S any](t *testing.T, app *txn.App, store topology.Store[S], content func(S) string) string {
	t.Helper()
	view, err := txn.Read(app, store, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := view.Close(); err != nil {
			t.Error(err)
		}
	}()
	return content(view.Store())
}

func lines[T any](t *testing.T, seq iter.Seq2[T, error]) string {
	t.Helper()
	var all []string
	for v, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprint(v))
	}
	return strings.Join(all, "\n")
}

const kindsKeys = 40

// TestStoresAreRestored: the rows of a store of each kind are in its changelog, also once that was
// compacted to the last record of each key. A store of ids does not need its expired rows. A
// history is kept from compaction by its lag, which kfake does not know.
func TestStoresAreRestored(t *testing.T) {
	for _, test := range []struct {
		name    string
		meddle  func(t *testing.T, b *testBroker)
		history bool
	}{
		{"whole", func(*testing.T, *testBroker) {}, true},
		{"compacted", func(t *testing.T, b *testBroker) {
			before := len(b.logged(t, "kinds-prices-changelog"))
			b.Compact()
			if after := len(b.logged(t, "kinds-prices-changelog")); after >= before || after > kindsKeys {
				t.Fatalf("compaction has left %d of %d records", after, before)
			}
		}, false},
		{"old records deleted", deleteExpired, true},
	} {
		bubble(t, test.name, func(t *testing.T) {
			b := newBroker(t, 1, "in")
			first, stop := start(t, kindsTopology(t), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
			feedKinds(t, b, first, time.Now().Add(-4*time.Hour))
			want := readKinds(t, first)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			for what, s := range map[string]string{"last": want.last, "prices": want.prices, "history": want.history, "seen": want.seen} {
				if strings.Count(s, "\n") < 10 {
					t.Fatalf("%s has too little to compare:\n%s", what, s)
				}
			}
			test.meddle(t, b)
			again, stop := start(t, kindsTopology(t), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
			waitFor(t, "the task", running(again, 1))
			got := readKinds(t, again)
			if !test.history {
				got.history, want.history = "", ""
			}
			if got != want {
				t.Errorf("restored:\n%+v\nwant:\n%+v", got, want)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

const kindsRecords = 600

// feedKinds produces records whose times go on for some times of the retention and lag behind by up
// to more than it. They come in parts, each of which is committed before the next: within a round
// the rows are in the order of their times anyway.
func feedKinds(t *testing.T, b *testBroker, app *txn.App, began time.Time) {
	t.Helper()
	const part = 50
	for from := 0; from < kindsRecords; from += part {
		var records []*kgo.Record
		for i := from; i < from+part; i++ {
			at := began.Add(time.Duration(i)*20*time.Second - time.Duration(i*7919%11)*4*time.Minute)
			value := fmt.Sprintf("v%d", i)
			if i%13 == 5 {
				value = "delete"
			}
			records = append(records, &kgo.Record{
				Topic: "in", Key: fmt.Appendf(nil, "k%d", i*31%kindsKeys), Value: []byte(value), Timestamp: at.Truncate(time.Millisecond),
			})
		}
		b.produce(t, records...)
		waitFor(t, "the records to be committed", func() bool {
			view, err := txn.Read(app, kindsLast, 0)
			if err != nil {
				return false
			}
			in, _ := view.Positions().Input("in", 0)
			return view.Close() == nil && in.Offset == int64(from+part)
		})
	}
}

// logged returns the committed records of a topic's partition 0, as far as they are there now.
func (b *testBroker) logged(t *testing.T, topic string) []*kgo.Record {
	t.Helper()
	ends, err := b.adm.ListCommittedOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, 0)
	cl := b.client(t, kgo.ConsumeTopics(topic), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(50*time.Millisecond))
	var out []*kgo.Record
	for next := int64(0); next < end.Offset; {
		for _, r := range cl.PollFetches(t.Context()).Records() {
			if next = r.Offset + 1; !r.Attrs.IsControl() {
				out = append(out, r)
			}
		}
	}
	return out
}

// deleteExpired deletes the records of ids in front of the first value that is not expired. A
// delete has nothing to delete then.
func deleteExpired(t *testing.T, b *testBroker) {
	t.Helper()
	records := b.logged(t, "kinds-seen-changelog")
	latest := slices.MaxFunc(records, func(a, c *kgo.Record) int { return a.Timestamp.Compare(c.Timestamp) }).Timestamp
	i := slices.IndexFunc(records, func(r *kgo.Record) bool {
		return r.Value != nil && r.Timestamp.After(latest.Add(-kindsRetention))
	})
	if i < 100 {
		t.Fatalf("only %d of %d records are expired", i, len(records))
	}
	if err := b.DeleteRecords("kinds-seen-changelog", 0, records[i].Offset); err != nil {
		t.Fatal(err)
	}
}
