package txn_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
)

var (
	pricesIn    = topology.Topic("prices", schemas.String(), schemas.JSON[int]())
	pricesStore = topology.TimestampedStore("latest", schemas.String(), schemas.JSON[int]())
	changesOut  = topology.Topic("changes", schemas.String(), schemas.String())
)

// pricesTopology writes every change of a table as old>new: a row that is not what it was shows in
// the next change of its key.
func pricesTopology(t *testing.T, opts ...topology.SourceOption) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("pricing", topology.DeadLetters("dead"))
	showChanges(topology.TableFrom(b, pricesIn, pricesStore, opts...))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// showChanges writes the changes of a table.
func showChanges(table topology.Table[string, int]) {
	topology.MapValues(table.Changes(), "show", func(value topology.Change[int]) (string, error) {
		show := func(v topology.Option[int]) string {
			if n, ok := v.Get(); ok {
				return fmt.Sprint(n)
			}
			return "-"
		}
		return show(value.Old) + ">" + show(value.New), nil
	}).Into(changesOut)
}

func restorable(t *testing.T) *topology.Topology {
	return pricesTopology(t, topology.RestoreFromTopic())
}

// prices are a broker with a topic of prices, and what was written to it.
type prices struct {
	*testBroker
	t    *testing.T
	cfg  txn.Config
	n    int
	dead int
	want map[string]int
	// bad has feed write values that cannot be decoded, which compaction takes for newer ones.
	bad bool
	// inputs are the topics that the task reads.
	inputs []string
}

// compacted and kept are what a topic of prices may be.
var (
	compacted = map[string]string{"cleanup.policy": "compact", "min.compaction.lag.ms": "3600000"}
	kept      = map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
)

// newPrices makes a topic, which nothing but the test compacts.
func newPrices(t *testing.T, configs map[string]string) *prices {
	t.Helper()
	return newPricesOn(t, newBroker(t, 1, "changes", "dead"), configs)
}

// newPricesOn is newPrices with a broker that has the topics "changes" and "dead".
func newPricesOn(t *testing.T, b *testBroker, configs map[string]string) *prices {
	t.Helper()
	p := &prices{testBroker: b, t: t, want: map[string]int{}, inputs: []string{"prices"}}
	set := map[string]*string{}
	for k, v := range configs {
		set[k] = &v
	}
	if _, err := p.adm.CreateTopic(t.Context(), 1, 1, set, "prices"); err != nil {
		t.Fatal(err)
	}
	p.cfg = p.config(txn.Config{StateDir: filepath.Join(t.TempDir(), "state"), Workers: 1})
	// A key that is never written again: compaction of the embedded broker moves the start of the
	// log to the first record that is left, which that of Kafka does not.
	p.produce(t, &kgo.Record{Topic: "prices", Key: []byte("first"), Value: []byte("0"), Timestamp: time.Now().Add(-2 * time.Hour)})
	p.want["first"] = 0
	return p
}

// feed writes prices of the given number of keys, each in a batch of its own. Between them it
// writes records that leave no row: nulls that delete, values that cannot be decoded, records
// without a key, and transactions that are aborted or committed.
func (p *prices) feed(n, keys int, age time.Duration) {
	p.t.Helper()
	foreign := p.transactional()
	defer foreign.Close()
	for range n {
		p.n++
		key := fmt.Sprintf("k%d", p.n*31%keys)
		r := &kgo.Record{Topic: "prices", Key: []byte(key), Value: fmt.Append(nil, p.n), Timestamp: time.Now().Add(-age)}
		switch {
		case p.n%11 == 3:
			r.Value = nil
			delete(p.want, key)
		case p.n%13 == 4 && p.bad:
			r.Value = []byte("{")
			p.dead++
		case p.n%17 == 5:
			r.Key = nil
		case p.n%23 == 6, p.n%23 == 7:
			commit := kgo.TransactionEndTry(p.n%23 == 7)
			if err := foreign.BeginTransaction(); err != nil {
				p.t.Fatal(err)
			}
			if err := foreign.ProduceSync(p.t.Context(), r).FirstErr(); err != nil {
				p.t.Fatal(err)
			}
			if err := foreign.EndTransaction(p.t.Context(), commit); err != nil {
				p.t.Fatal(err)
			}
			if commit {
				p.want[key] = p.n
			}
			continue
		default:
			p.want[key] = p.n
		}
		p.produce(p.t, r)
	}
}

// transactional returns a client with transactions of another application.
func (p *prices) transactional() *kgo.Client {
	p.t.Helper()
	return p.client(p.t, kgo.TransactionalID(p.t.Name()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

// end is where the topic ends.
func (p *prices) end() int64 {
	p.t.Helper()
	return p.endOf("prices")
}

func (p *prices) endOf(topic string) int64 {
	p.t.Helper()
	ends, err := p.adm.ListCommittedOffsets(p.t.Context(), topic)
	if err != nil {
		p.t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, 0)
	return end.Offset
}

// caughtUp reports whether everything in the inputs is committed.
func (p *prices) caughtUp(app *txn.App) bool {
	view, err := txn.Read(app, pricesStore, 0)
	if err != nil {
		return false
	}
	positions := view.Positions()
	for _, topic := range p.inputs {
		if in, _ := positions.Input(topic, 0); in.Offset != p.endOf(topic) {
			return view.Close() != nil
		}
	}
	return view.Close() == nil
}

// table returns the rows of the table.
func (p *prices) table(app *txn.App) string {
	p.t.Helper()
	return readStore(p.t, app, pricesStore, func(s state.Timestamped[string, int]) string {
		all := map[string]int{}
		for e, err := range s.All() {
			if err != nil {
				p.t.Fatal(err)
			}
			all[e.Key] = e.Value
		}
		return fmt.Sprint(all)
	})
}

// lives lets an application process everything, compares its table and all changes, and stops it.
func (p *prices) lives(top *topology.Topology) (restored int64) {
	p.t.Helper()
	got, restored := p.process(top)
	if want := fmt.Sprint(p.want); got != want {
		p.t.Errorf("the table is\n%s\nand should be\n%s", got, want)
	}
	if err := p.chained(); err != nil {
		p.t.Fatal(err)
	}
	if dead := len(p.logged(p.t, "dead")); dead != p.dead {
		p.t.Errorf("%d dead letters, want %d", dead, p.dead)
	}
	return restored
}

// process lets an application process everything, and stops it. It returns its table.
func (p *prices) process(top *topology.Topology) (table string, restored int64) {
	p.t.Helper()
	app, stop := start(p.t, top, p.cfg)
	waitFor(p.t, "everything to be committed", func() bool { return p.caughtUp(app) })
	table = p.table(app)
	restored = app.Status().Tasks[0].Restored
	if err := stop(); err != nil {
		p.t.Fatal(err)
	}
	return table, restored
}

// chained returns an error unless the old value of each change is what the one before it has left.
func (p *prices) chained() error {
	p.t.Helper()
	last := map[string]string{}
	for _, r := range p.logged(p.t, "changes") {
		old, now, _ := strings.Cut(string(r.Value), ">")
		if was, ok := last[string(r.Key)]; ok && was != old || !ok && old != "-" {
			return fmt.Errorf("key %s: %q follows %q", r.Key, r.Value, was)
		}
		last[string(r.Key)] = now
	}
	return nil
}

// loseState takes the disk away.
func (p *prices) loseState() {
	p.t.Helper()
	if err := os.RemoveAll(p.cfg.StateDir); err != nil {
		p.t.Fatal(err)
	}
}

// TestTableFromItsTopic: a table without a changelog is restored as of the committed offset on an
// empty disk, although its topic goes on behind it with newer values; there is no second topic.
func TestTableFromItsTopic(t *testing.T) {
	for name, configs := range map[string]map[string]string{"compacted": compacted, "kept": kept} {
		bubble(t, name, func(t *testing.T) {
			p := newPrices(t, configs)
			p.bad = true
			for range 3 {
				p.feed(120, 20, 0)
				p.lives(restorable(t))
				p.feed(60, 20, 0)
				p.loseState()
				if n := p.lives(restorable(t)); n < 90 {
					t.Errorf("%d records were restored", n)
				}
			}
			topics, err := p.adm.ListTopics(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if topics.Has("pricing-latest-changelog") {
				t.Error("the store has a changelog")
			}
		})
	}
}

// TestOlderTable: a directory that is behind the commit takes the records between them and no
// others; once some of these are gone it begins again from the start of the topic. Deletions are
// among those.
func TestOlderTable(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPrices(t, compacted)
		p.feed(200, 20, 2*time.Hour) // all of it is old enough to be compacted
		p.lives(restorable(t))
		old := p.cfg.StateDir
		for _, compact := range []bool{false, true} {
			p.cfg.StateDir = filepath.Join(t.TempDir(), "other")
			p.feed(100, 20, 2*time.Hour)
			p.lives(restorable(t))
			if compact {
				before := len(p.logged(t, "prices"))
				p.Compact()
				if after := len(p.logged(t, "prices")); after > before/2 {
					t.Fatalf("compaction has left %d of %d records", after, before)
				}
			}
			p.cfg.StateDir = old
			log := &safeBuffer{}
			p.cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
			n := p.lives(restorable(t))
			if again := strings.Contains(log.String(), "source_incomplete"); again != compact {
				t.Errorf("with compaction %t the store began again: %t\n%s", compact, again, log.String())
			}
			if tail := int64(100); !compact && (n < tail*8/10 || n > tail) {
				t.Errorf("%d records were restored of a tail of %d", n, tail)
			}
			p.cfg.Logger = nil
		}
	})
}

// TestHiddenValue: a record that cannot be decoded is the last of its key. Compaction takes it for
// the newest value, and the table has the one before: an empty disk is refused, until the key is
// written again.
func TestHiddenValue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPrices(t, compacted)
		p.feed(40, 5, 2*time.Hour)
		old := time.Now().Add(-2 * time.Hour)
		p.produce(t, &kgo.Record{Topic: "prices", Key: []byte("k1"), Value: []byte("1"), Timestamp: old})
		p.produce(t, &kgo.Record{Topic: "prices", Key: []byte("k1"), Value: []byte("{"), Timestamp: old})
		// A key that cannot be decoded has no value that could be hidden.
		p.produce(t, &kgo.Record{Topic: "prices", Key: []byte("\xff"), Value: []byte("1"), Timestamp: old})
		p.want["k1"] = 1
		p.dead += 2
		p.feed(20, 1, 2*time.Hour) // k0 alone
		p.lives(restorable(t))
		p.Compact()
		p.lives(restorable(t)) // its directory has the value
		p.stops("1 of its keys at least end with a record that its codecs do not take")
		p.produce(t, &kgo.Record{Topic: "prices", Key: []byte("k1"), Value: []byte("2"), Timestamp: old})
		p.want["k1"] = 2
		p.lives(restorable(t))
		p.loseState()
		p.lives(restorable(t))
	})
}

// TestKeyInOtherForm: a key was deleted in another byte form than the value before has it.
// Compaction takes out the deletion and leaves the value, which the table has not: an empty disk is
// refused, although nothing follows the commit.
func TestKeyInOtherForm(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := topology.NewBuilder("pricing", topology.DeadLetters("dead"))
		in := topology.Topic("prices", schemas.JSON[string](), schemas.JSON[int]())
		topology.TableFrom(b, in, pricesStore, topology.RestoreFromTopic())
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		p := newPrices(t, compacted)
		write := func(key, value string) {
			r := &kgo.Record{Topic: "prices", Key: []byte(key), Timestamp: time.Now().Add(-2 * time.Hour)}
			if value != "" {
				r.Value = []byte(value)
			}
			p.produce(t, r)
		}
		table := func(want string) {
			t.Helper()
			if got, _ := p.process(top); got != want {
				t.Fatalf("the table is %s and should be %s", got, want)
			}
		}
		write(`"a"`, "1")
		write(`"b"`, "1")
		write(`"b"`, "2")
		table("map[a:1 b:2]")
		p.Compact()
		p.loseState()
		table("map[a:1 b:2]") // with one form of each key
		write(` "a"`, "2")
		write(` "a"`, "")
		table("map[b:2]")
		p.Compact()
		p.stopsWith(top, "keys in other bytes than their codec writes")
		table("map[b:2]")
	})
}

// TestSettingsOfNow: the retention of a topic is asked for after the topic has been read. The
// settings that the session found at its beginning are old.
func TestSettingsOfNow(t *testing.T) {
	day := maps.Clone(compacted)
	day["min.compaction.lag.ms"] = "86400000"
	for _, tc := range []struct {
		name, setting, value, stop string
		behind                     time.Duration
		bad                        bool
	}{
		{"the lag was lowered", "min.compaction.lag.ms", "3600000", "may have been compacted, which min.compaction.lag.ms holds off for 1h0m0s", 2 * time.Hour, false},
		{"the lag was lowered, and a value is hidden", "min.compaction.lag.ms", "3600000", "1 of its keys at least end with a record", 0, true},
		{"deletions are removed at once", "delete.retention.ms", "0", "it keeps deletions for 0s", 0, false},
	} {
		bubble(t, tc.name, func(t *testing.T) {
			p := newPrices(t, day)
			p.feed(100, 10, 2*time.Hour)
			if tc.bad {
				old := time.Now().Add(-2 * time.Hour)
				p.produce(t, &kgo.Record{Topic: "prices", Key: []byte("k1"), Value: []byte("{"), Timestamp: old})
				p.dead++
			}
			p.lives(restorable(t))
			p.Compact() // the digest shows that something is gone, and not what
			p.produce(t, &kgo.Record{Topic: "prices", Key: []byte("k2"), Value: []byte("1"), Timestamp: time.Now().Add(-tc.behind)})
			var asked atomic.Int64
			p.ControlKey(int16(kmsg.OffsetFetch), func(kmsg.Request) (kmsg.Response, error, bool) {
				p.KeepControl()
				if asked.Add(1) == 2 { // not the start any more: the session has begun
					p.SleepControl(func() {
						set := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: tc.setting, Value: &tc.value}}
						if _, err := p.adm.AlterTopicConfigs(t.Context(), set, "prices"); err != nil {
							t.Error(err)
						}
					})
				}
				return nil, nil, false
			})
			p.stops(tc.stop)
			if asked.Load() < 2 {
				t.Error("the setting was not altered, so this test shows nothing")
			}
		})
	}
}

// TestOpenBehindCommit: what follows the commit is old and belongs to a transaction that is still
// open. Compaction ends before it, so that it has not taken anything out.
func TestOpenBehindCommit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPrices(t, compacted)
		p.feed(100, 5, 2*time.Hour)
		p.lives(restorable(t))
		p.Compact() // the digest does not show it
		open := p.transactional()
		defer open.Close()
		if err := open.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-2 * time.Hour)
		if err := open.ProduceSync(t.Context(), &kgo.Record{Topic: "prices", Key: []byte("k1"), Value: []byte("1"), Timestamp: old}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		p.loseState()
		p.lives(restorable(t))
		if err := open.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		p.stops("and what follows offset", "min.compaction.lag.ms holds off for 1h0m0s")
		p.want["k1"] = 1
		p.lives(restorable(t))
	})
}

// stops loses the disk, and the task must stop for a reason with these words.
func (p *prices) stops(words ...string) {
	p.t.Helper()
	p.stopsWith(restorable(p.t), append(words, "store latest is restored from prices[0], and")...)
}

// stopsWith is stops for a topology of the test's own.
func (p *prices) stopsWith(top *topology.Topology, words ...string) {
	p.t.Helper()
	cfg := p.cfg
	cfg.StateDir, cfg.Logger = filepath.Join(p.t.TempDir(), "empty"), testLogger(p.t)
	app, err := txn.New(top, cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	err = app.Run(ctx)
	for _, want := range append(words, "`onceward rebuild from-input prices_0`") {
		if !errors.Is(err, txn.ErrIntegrity) || !errors.Is(err, txn.ErrAllStopped) || !strings.Contains(err.Error(), want) {
			p.t.Fatalf("Run returned %v, want %q", err, want)
		}
	}
}

// TestTableThatIsGone: newer values, old enough for Kafka to compact them, have taken values out of
// the topic that the table had at the commit. An empty disk is not filled with what is left, whose
// wrong values are shown first; the task stops, offsets cannot be moved, and a rebuild from input
// goes on.
func TestTableThatIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPrices(t, compacted)
		at := p.compactBehindCommit()
		p.stops("and what follow", "compacted")
		client := p.office(t)
		op := client.Application(restorable(t))
		if _, err := op.Reset(t.Context(), admin.Options{}, admin.Offsets{"prices": admin.End}); !errors.Is(err, admin.ErrRefused) ||
			!strings.Contains(err.Error(), "RestoreFromTopic") {
			t.Errorf("reset returned %v", err)
		}
		if _, err := op.RebuildFromInput(t.Context(), admin.Options{}, admin.Offsets{"prices": at}); !errors.Is(err, admin.ErrRefused) ||
			!strings.Contains(err.Error(), "from offset 0") {
			t.Errorf("a rebuild from the middle returned %v", err)
		}
		if _, err := op.RebuildFromInput(t.Context(), admin.Options{}, nil); err != nil {
			t.Fatal(err)
		}
		before := len(p.logged(t, "prices"))
		newChain(p).lives(restorable(t))
		if after := len(p.logged(t, "prices")); after != before {
			t.Errorf("the topic had %d records and has %d", before, after)
		}
	})
}

// compactBehindCommit lets compaction take values out of the topic that the table had at the
// commit, and returns the commit.
func (p *prices) compactBehindCommit() (at int64) {
	p.t.Helper()
	p.feed(200, 20, 2*time.Hour)
	p.lives(restorable(p.t))
	at = p.end()
	was := fmt.Sprint(p.want)
	p.feed(100, 20, 2*time.Hour)
	p.Compact()
	left := map[string]int{}
	for _, r := range p.logged(p.t, "prices") {
		k, v, err := pricesIn.Decode(r.Key, r.Value)
		if err == nil && r.Offset < at {
			left[k] = v
		}
	}
	if fmt.Sprint(left) == was {
		p.t.Fatal("the topic has lost nothing, so this test shows nothing")
	}
	return at
}

// newChain drops the changes so far: after a rebuild from input they come again from the start.
func newChain(p *prices) *prices {
	p.t.Helper()
	for _, topic := range []string{"changes", "dead"} {
		if _, err := p.adm.DeleteTopics(p.t.Context(), topic); err != nil {
			p.t.Fatal(err)
		}
		if _, err := p.adm.CreateTopic(p.t.Context(), 1, 1, nil, topic); err != nil {
			p.t.Fatal(err)
		}
	}
	p.dead = 0
	for _, r := range p.logged(p.t, "prices") {
		if string(r.Value) == "{" {
			p.dead++
		}
	}
	return p
}

// TestOptionOfUsedStore: a store that had a changelog is not taken for one that is restored from
// its topic, nor the other way round, until its input is read again.
func TestOptionOfUsedStore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPrices(t, kept)
		p.feed(60, 10, 0)
		p.lives(pricesTopology(t))
		client := p.office(t)
		for _, next := range []*topology.Topology{restorable(t), pricesTopology(t)} {
			p.cfg.Logger = testLogger(t)
			app, err := txn.New(next, p.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := app.Run(context.Background()); !errors.Is(err, txn.ErrIntegrity) || !strings.Contains(err.Error(), "rebuild from-input") {
				t.Fatalf("Run returned %v", err)
			}
			if _, err := client.Application(next).RebuildFromInput(t.Context(), admin.Options{}, nil); err != nil {
				t.Fatal(err)
			}
			p.feed(10, 10, 0)
			newChain(p).lives(next)
		}
	})
}

// TestCutTopic: a topic from which records were deleted cannot restore its table, and a directory
// needs none of the deleted records.
func TestCutTopic(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPrices(t, kept)
		p.feed(60, 5, 0)
		p.lives(restorable(t))
		if err := p.DeleteRecords("prices", 0, 5); err != nil {
			t.Fatal(err)
		}
		p.stops("its log begins at 5")
		p.feed(20, 5, 0)
		p.lives(restorable(t))
	})
}

// TestUnfitTopic: what could not be restored is refused at start.
func TestUnfitTopic(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for want, configs := range map[string]map[string]string{
			"min.compaction.lag.ms is 0 and has to be at least 3600000: a table is restored from the topic": {"cleanup.policy": "compact"},
			"delete.retention.ms is 0 and has to be at least 3600000: a table is restored from the topic": {
				"cleanup.policy": "compact", "min.compaction.lag.ms": "3600000", "delete.retention.ms": "0",
			},
			"retention.ms is 604800000 and has to be -1, or cleanup.policy compact": {"cleanup.policy": "delete", "retention.ms": "604800000"},
		} {
			p := newPrices(t, configs)
			p.cfg.Logger = testLogger(t)
			app, err := txn.New(restorable(t), p.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := app.Run(context.Background()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Run returned %v, want %q", err, want)
			}
		}
		p := newPrices(t, kept)
		p.feed(20, 5, 0)
		if err := p.DeleteRecords("prices", 0, 5); err != nil {
			t.Fatal(err)
		}
		p.cfg.Logger = testLogger(t)
		app, err := txn.New(restorable(t), p.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := app.Run(context.Background()); !errors.Is(err, txn.ErrIntegrity) || !strings.Contains(err.Error(), "whose log begins at 5") {
			t.Errorf("Run returned %v", err)
		}
	})
}
