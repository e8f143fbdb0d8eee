package operations_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/admin"
)

// timed is an application with stores that have a time of their own. It writes of every record what
// its stores make of it.
type timed struct {
	*recoveryScene
	base time.Time
	want []string
}

var (
	windows   = topology.WindowStore("windows", schemas.String(), schemas.Int64(), 30*time.Minute)
	ids       = topology.DedupeStore("ids", schemas.String(), schemas.Int64(), 30*time.Minute)
	histories = topology.VersionedStore("histories", schemas.String(), schemas.Int64(), 30*time.Minute)
)

func newTimed(t *testing.T, c *cluster.Cluster, history bool) *timed {
	e := &timed{recoveryScene: newRecoveryScene(t, c), base: time.Now().Truncate(time.Hour).Add(-5 * time.Hour)}
	e.other = func() *topology.Builder {
		b := topology.NewBuilder("times")
		in := topology.From(b, topology.Topic(e.in, schemas.String(), schemas.String()))
		counted := topology.Process(in, "count", windows, countWindow)
		unique := topology.Process(counted, "unique", ids, remember)
		if history {
			unique = topology.Process(unique, "history", histories, note)
		}
		unique.Into(topology.Topic(e.out, schemas.String(), schemas.String()))
		return b
	}
	return e
}

func countWindow(
	c *topology.Context, s state.Window[string, int64], r topology.Record[string, string], emit topology.Emit[string, string],
) error {
	start := r.Time().Truncate(time.Minute).UnixMilli()
	n, _, _, err := s.Get(r.Key, start)
	if err != nil {
		return err
	}
	stored, err := s.Put(r.Key, start, n+1, r.Timestamp)
	if err != nil {
		return err
	}
	if r.Value = "late"; stored {
		r.Value = fmt.Sprint(n + 1)
	}
	return emit(c, r)
}

func remember(
	c *topology.Context, s state.Dedupe[string, int64], r topology.Record[string, string], emit topology.Emit[string, string],
) error {
	_, presence, err := s.PutIfAbsent(r.Key, 1, r.Timestamp)
	if err != nil {
		return err
	}
	r.Value += " " + presence.String()
	return emit(c, r)
}

func note(
	c *topology.Context, s state.Versioned[string, int64], r topology.Record[string, string], emit topology.Emit[string, string],
) error {
	if _, err := s.Put(r.Key, 1, r.Timestamp); err != nil {
		return err
	}
	return emit(c, r)
}

// feedAt writes one record into each partition, which is to become want.
func (e *timed) feedAt(key string, minute int, want string) {
	e.t.Helper()
	for p := range int32(recoveryPartitions) {
		e.fed[p] = append(e.fed[p], key)
		r := &kgo.Record{
			Topic: e.in, Partition: p, Key: []byte(key), Timestamp: e.base.Add(time.Duration(minute) * time.Minute),
			Value: []byte("v"),
		}
		if err := e.producer.ProduceSync(e.t.Context(), r).FirstErr(); err != nil {
			e.t.Fatal(err)
		}
	}
	if want != "" {
		e.want = append(e.want, want)
	}
}

// lives processes all that was fed, and checks all that was ever written, which is once for each
// partition.
func (e *timed) lives() {
	e.t.Helper()
	e.life(len(e.fed[0]))
	var got, want []string
	for _, r := range e.Records(e.t, e.out) {
		got = append(got, string(r.Key)+" "+string(r.Value))
	}
	for range recoveryPartitions {
		want = append(want, e.want...)
	}
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		e.t.Errorf("written is\n%q\nwant\n%q", got, want)
	}
}

// begins feeds so much that the first records are expired.
func (e *timed) begins() {
	e.t.Helper()
	e.feedAt("a", 0, "a 1 absent")
	e.feedAt("a", 20, "a 1 present")
	e.feedAt("a", 40, "a 1 absent")
	e.feedAt("b", 5, "b late too late")
	e.lives()
}

// TestRecoveryActionsKeepStreamTime: expired rows stay expired after each recovery action, because the stream time
// of the store is part of the state.
func TestRecoveryActionsKeepStreamTime(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(e *timed){
		"accept-skip": func(e *timed) {
			e.feedAt("skipped", 41, "")
			e.commit(5, "")
			e.does(e.operator().AcceptSkip)
		},
		"adopt": func(e *timed) {
			e.commit(4, "")
			e.does(e.operator().Adopt)
		},
		"reset": func(e *timed) {
			e.feedAt("skipped", 41, "")
			e.does(withOffsets(e.operator().Reset, admin.Offsets{e.in: 5}))
		},
		"adopt from rounds": func(e *timed) {
			e.expire()
			e.does(e.operator().AdoptFromRounds)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster.OnVirtual(t, func(t *testing.T, c *cluster.Cluster) {
				e := newTimed(t, c, true)
				e.begins()
				take(e)
				e.feedAt("c", 5, "c late too late")
				e.lives()
				if err := os.RemoveAll(e.stateDir); err != nil {
					t.Fatal(err)
				}
				e.feedAt("d", 5, "d late too late")
				e.lives()
			})
		})
	}
}

// TestAdoptKnowsTime: where nothing says what the stream time was, it is that of the state which is
// adopted.
func TestAdoptKnowsTime(t *testing.T) {
	t.Parallel()
	cluster.OnVirtual(t, func(t *testing.T, c *cluster.Cluster) {
		e := newTimed(t, c, true)
		e.begins()
		e.deleteKept()
		e.commit(4, "")
		e.does(live(e.operator().Adopt))
		e.feedAt("c", 5, "c late too late")
		e.lives()
	})
}

// deleteKept deletes what the last clean stop has kept.
func (e *recoveryScene) deleteKept() {
	e.t.Helper()
	for p := range recoveryPartitions {
		r := &kgo.Record{Topic: e.application + "-rounds", Key: fmt.Appendf(nil, "positions %s_%d", e.in, p)}
		if err := e.producer.ProduceSync(e.t.Context(), r).FirstErr(); err != nil {
			e.t.Fatal(err)
		}
	}
}

// rows are the rows of a store as they are in the databases.
func (e *recoveryScene) rows(store string) (rows []string) {
	e.t.Helper()
	for p := range recoveryPartitions {
		db := e.open(p)
		for entry, err := range db.Scan(state.IDOf(store), state.Range{}) {
			if err != nil {
				e.t.Fatal(err)
			}
			rows = append(rows, fmt.Sprintf("%d: %x = %x", p, entry.Key, entry.Value))
		}
		if err := db.Close(); err != nil {
			e.t.Fatal(err)
		}
	}
	return rows
}

// TestRebuildStoppedTimes: rows that are not the records of their changelogs come back as they
// were.
func TestRebuildStoppedTimes(t *testing.T) {
	t.Parallel()
	cluster.OnVirtual(t, func(t *testing.T, c *cluster.Cluster) {
		e := newTimed(t, c, true)
		e.begins()
		stores := []string{"windows", "ids", "histories"}
		before := map[string][]string{}
		for _, store := range stores {
			before[store] = e.rows(store)
		}
		e.does(e.fromChangelog(e.operator(), "windows"))
		e.does(e.fromChangelog(e.operator()))
		for _, store := range stores {
			if got := e.rows(store); len(got) == 0 || !slices.Equal(got, before[store]) {
				t.Errorf("store %s has the rows\n%q\nafter the rebuild, and had\n%q", store, got, before[store])
			}
		}
		e.feedAt("c", 5, "c late too late")
		e.lives()
	})
}

// TestFromInputTimes: state with times is empty after a rebuild from input, in the databases that
// there are too.
func TestFromInputTimes(t *testing.T) {
	t.Parallel()
	cluster.OnVirtual(t, func(t *testing.T, c *cluster.Cluster) {
		e := newTimed(t, c, false)
		e.begins()
		e.does(withOffsets(e.operator().RebuildFromInput, nil))
		e.want = append(e.want, e.want...)
		e.lives()
		if err := os.RemoveAll(e.stateDir); err != nil {
			t.Fatal(err)
		}
		e.feedAt("c", 5, "c late too late")
		e.lives()
	})
}

// TestFromInputHistory: a record without a value ends a version of a history, and does not take it
// away.
func TestFromInputHistory(t *testing.T) {
	t.Parallel()
	cluster.OnVirtual(t, func(t *testing.T, c *cluster.Cluster) {
		e := newTimed(t, c, true)
		e.begins()
		e.refuses(withOffsets(e.operator().RebuildFromInput, nil), "histories", "delete the topic")
	})
}
