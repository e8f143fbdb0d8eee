//go:build onceward_failpoints

package txn_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/proxy"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
)

type countView = txn.View[state.KeyValue[string, int64]]

// countOf is the count of the only key that feedAll writes to a partition.
func countOf(t *testing.T, view *countView, partition int32) int64 {
	t.Helper()
	n, _, err := view.Store().Get(fmt.Sprint("p", partition))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// ownerOf returns the instance that the coordinator has given a partition, and its member id.
func (s *peerScene) ownerOf(partition int32) (instance, member string) {
	s.t.Helper()
	groups, err := s.adm.DescribeGroups(s.t.Context(), "counting")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, m := range groups["counting"].Members {
		assigned, ok := m.Assigned.AsConsumer()
		if !ok || m.InstanceID == nil {
			continue
		}
		for _, topic := range assigned.Topics {
			for _, p := range topic.Partitions {
				if p == partition {
					return *m.InstanceID, m.MemberID
				}
			}
		}
	}
	return "", ""
}

// of returns a partition of an instance, and one of another.
func (s *peerScene) of(instance string) (own, other int32) {
	s.t.Helper()
	own, other = -1, -1
	for p := range int32(4) {
		if owner, _ := s.ownerOf(p); owner == instance {
			own = p
		} else {
			other = p
		}
	}
	if own < 0 || other < 0 {
		s.t.Fatalf("%s has all tasks, or none", instance)
	}
	return own, other
}

// judge says what is wrong with the owner of a view that was asked for while the coordinator had
// given the task to a member all the time.
func judge(view *countView, instance, member string) error {
	if view.Instance() != instance || view.Epoch().Member != member {
		return fmt.Errorf("%q answered under member %q, and the task belongs to %q with %q", view.Instance(), view.Epoch().Member, instance, member)
	}
	return nil
}

// TestQueryFindsTheInstance: every instance answers for every partition, by its number and by a
// key, with what the owner has, its position and its epoch.
func TestQueryFindsTheInstance(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := pairOf(t, nil)
		s.feedAll()
		s.await("the counts", func() bool { return s.atEnd(1, "one", "two") })
		for asked, app := range s.apps {
			for p := range int32(4) {
				view, err := txn.Query(t.Context(), app, countsStore, txn.AtPartition(p))
				if err != nil {
					t.Fatalf("%s does not answer for %d: %v", asked, p, err)
				}
				instance, member := s.ownerOf(p)
				if err := judge(view, instance, member); err != nil {
					t.Error(err)
				}
				local, err := txn.Read(s.apps[instance], countsStore, p)
				if err != nil {
					t.Fatal(err)
				}
				if n := countOf(t, view, p); n != 1 || view.Round() != local.Round() || view.Epoch() != local.Epoch() || view.WhyStale() != nil {
					t.Errorf("%s: partition %d has count %d at round %s of %s, the owner has round %s of %s", asked, p, n, view.Round(),
						view.Epoch(), local.Round(), local.Epoch())
				}
				_ = local.Close()
				if _, copied := view.Standby(); copied {
					t.Error("the view is of a copy")
				}
				_ = view.Close()
			}
			key := fmt.Sprint("of ", asked)
			view, err := txn.Query(t.Context(), app, countsStore, txn.AtKey(schemas.String(), key))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := view.Positions().Inputs[0].Partition, graph.PartitionOf([]byte(key), 4); got != want {
				t.Errorf("a key is looked for in partition %d, want %d", got, want)
			}
			_ = view.Close()
			_, err = txn.Query(t.Context(), app, countsStore, txn.AtPartition(4))
			if !errors.Is(err, txn.ErrUnknownPartition) || errors.Is(err, txn.ErrNotServing) || !strings.Contains(err.Error(), "it has 4") {
				t.Errorf("a partition that does not exist: %v", err)
			}
		}
	})
}

// TestQueryWithoutPeers: an instance that has no peers answers for its own tasks, and says why it
// does not for others.
func TestQueryWithoutPeers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newPeerScene(t)
		for _, instance := range []string{"one", "two"} {
			s.start(instance, func(cfg *txn.Config) { cfg.Peers.Listen = txn.PeersOff })
		}
		s.await("two tasks each", s.balanced)
		own, other := s.of("one")
		view, err := txn.Query(t.Context(), s.apps["one"], countsStore, txn.AtPartition(own))
		if err != nil {
			t.Fatal(err)
		}
		_ = view.Close()
		_, err = txn.Query(t.Context(), s.apps["one"], countsStore, txn.AtPartition(other))
		if !errors.Is(err, txn.ErrNotServing) || !strings.Contains(err.Error(), "has no peers") {
			t.Errorf("Query returned %v", err)
		}
	})
}

// moving asks all instances for all partitions while tasks move.
type moving struct {
	*peerScene
	asked                    []string        // instances
	fed                      map[int32]int64 // records
	served, forwarded, moved int
	behind                   int // answers without a bound that do not contain the last record
	copied                   int // answers of copies
}

// ask writes a record and asks for its effects: without a bound, with one, and of copies too.
// Nothing else than ErrNotServing is an error.
func (m *moving) ask(asked string, p int32) {
	m.t.Helper()
	m.fed[p]++
	m.produce(m.t, &kgo.Record{Topic: "in", Partition: p, Key: fmt.Append(nil, "p", p), Value: []byte("v")})
	last := m.fed[p] - 1
	for i, options := range [][]txn.ReadOption{nil, {txn.AtLeast("in", p, last)}, {txn.Standbys(time.Minute)}} {
		instance, member := m.ownerOf(p)
		view, err := txn.Query(m.t.Context(), m.apps[asked], countsStore, txn.AtPartition(p), options...)
		if err != nil {
			if !errors.Is(err, txn.ErrNotServing) {
				m.t.Errorf("%s does not answer for %d: %v", asked, p, err)
			}
			m.moved++
			continue
		}
		n, _, err := view.Store().Get(fmt.Sprint("p", p))
		if _, copied := view.Standby(); copied {
			m.copied++
		} else if after, again := m.ownerOf(p); instance != "" && instance == after && member == again {
			if err := judge(view, instance, member); err != nil {
				m.t.Error(err)
			}
		}
		switch {
		case errors.Is(err, txn.ErrNotServing):
			m.moved++
		case err != nil:
			m.t.Error(err)
		case n != view.Positions().Inputs[0].Offset:
			m.t.Errorf("%d records are counted at offset %d", n, view.Positions().Inputs[0].Offset)
		case n > last:
			m.served++
		case i != 1:
			m.behind++
		default:
			m.t.Errorf("%s: the count of %d is %d with the bound of record %d", asked, p, n, last)
		}
		if view.Instance() != asked {
			m.forwarded++
		}
		_ = view.Close()
	}
}

// until asks until a condition holds.
func (m *moving) until(what string, cond func() bool) {
	m.t.Helper()
	m.await(what, func() bool {
		for _, asked := range m.asked {
			for p := range int32(4) {
				m.ask(asked, p)
			}
		}
		return cond()
	})
}

// TestQueriesWhileTasksMove: while instances join, stop and die, no instance answers for a task
// that is not its own. No answer is below its bound, each has the rows of its position, those of
// copies too, and every refusal is ErrNotServing. Without a bound older answers come: they are the
// control of the bound. TestJudgeOfQueries is that of the owner.
func TestQueriesWhileTasksMove(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := &moving{peerScene: pairOf(t, withStandbys(1)), fed: map[int32]int64{}}
		m.start("three", withStandby)
		m.asked = []string{"one", "two", "three"}
		m.until("a task of the third instance", func() bool { return m.has("three", 1) })
		stopped := make(chan error, 1)
		go func() { stopped <- m.stops["three"]() }()
		m.until("the end of the third instance", func() bool {
			select {
			case err := <-stopped:
				if err != nil {
					t.Error(err)
				}
				return true
			default:
				return false
			}
		})
		m.asked = []string{"one", "two"}
		m.until("two tasks each", m.balanced)
		m.hosts["two"].Kill()
		m.abandon("two")
		m.asked = []string{"one"}
		m.until("all tasks at the one that lives", func() bool { return m.has("one", 4) })
		m.start("four", withStandby)
		m.asked = []string{"one", "four"}
		m.until("two tasks each again", func() bool { return m.has("one", 2) && m.has("four", 2) })
		if m.served < 100 || m.forwarded < 100 || m.moved < 10 || m.behind < 10 || m.copied < 10 {
			t.Errorf("the test tests little: %d answers, %d of another instance, %d refusals, %d answers below the last record, %d of copies",
				m.served, m.forwarded, m.moved, m.behind, m.copied)
		}
	})
}

func withStandby(cfg *txn.Config) { cfg.Standbys = 1 }

// TestJudgeOfQueries is the negative control of the owner in TestQueriesWhileTasksMove: stale reads
// leave out the check of the owner, and their answers are found.
func TestJudgeOfQueries(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := pairOf(t, nil)
		s.feedAll()
		s.await("the counts", func() bool { return s.atEnd(1, "one", "two") })
		changelog := s.TopicInfo("counting-counts-changelog")
		hold := make(chan struct{})
		letGo := sync.OnceFunc(func() { close(hold) })
		defer letGo()
		s.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
			s.KeepControl()
			for _, topic := range req.(*kmsg.FetchRequest).Topics {
				if topic.Topic == changelog.Topic || topic.TopicID == changelog.TopicID {
					s.SleepControl(func() { <-hold })
				}
			}
			return nil, nil, false
		})
		_, p := s.of("one") // a task of "two"
		s.stop("two")
		var found error
		s.await("an answer that the judge refuses", func() bool {
			instance, member := s.ownerOf(p)
			if _, err := txn.Query(t.Context(), s.apps["one"], countsStore, txn.AtPartition(p)); err == nil || !errors.Is(err, txn.ErrNotServing) {
				t.Fatalf("a task that is restored is served: %v", err)
			}
			view, err := txn.Query(t.Context(), s.apps["one"], countsStore, txn.AtPartition(p), txn.Stale())
			if err != nil {
				return false
			}
			defer view.Close()
			found = judge(view, instance, member)
			return found != nil
		})
		letGo()
		s.await("all tasks", func() bool { return s.has("one", 4) })
	})
}

// TestQueryBound: while the answer to a commit is under way, readers of the output see the record
// already, and the state of the owner does not contain it. A query with its offset is refused, at
// both instances, and served afterwards. The control without the bound gets the older count.
func TestQueryBound(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := pairOf(t, nil)
		s.feedAll()
		s.await("the counts", func() bool { return s.atEnd(1, "one", "two") })
		_, p := s.of("one")
		commit := s.hosts["two"].Add(proxy.Match{Key: proxy.KeyEndTxn, Direction: proxy.ToClient, Limit: 1}, proxy.Hold())
		s.produce(t, &kgo.Record{Topic: "in", Partition: p, Key: fmt.Append(nil, "p", p), Value: []byte("v")})
		s.await("a commit under way", matched(commit))
		for asked, app := range s.apps {
			if _, err := txn.Query(t.Context(), app, countsStore, txn.AtPartition(p), txn.AtLeast("in", p, 1)); !errors.Is(err, txn.ErrBehind) || !errors.Is(err, txn.ErrNotServing) {
				t.Errorf("%s: a query with the bound returned %v", asked, err)
			}
			control, err := txn.Query(t.Context(), app, countsStore, txn.AtPartition(p))
			if err != nil {
				t.Fatal(err)
			}
			if n := countOf(t, control, p); n != 1 {
				t.Errorf("%s: without the bound the count is %d, want the old one", asked, n)
			}
			_ = control.Close()
			if _, err := txn.Query(t.Context(), app, countsStore, txn.AtPartition(p), txn.AtLeast("other", p, 1)); err == nil || errors.Is(err, txn.ErrNotServing) {
				t.Errorf("%s: a bound in a topic that the task does not read: %v", asked, err)
			}
		}
		commit.Lift()
		s.await("the commit", func() bool { return s.counts("one", p, txn.AtLeast("in", p, 1)) == 2 })
		if n := s.counts("two", p, txn.AtLeast("in", p, 1)); n != 2 {
			t.Errorf("the owner has count %d", n)
		}
	})
}

// counts asks an instance for the count of a partition; -1 while that is not served.
func (s *peerScene) counts(asked string, p int32, options ...txn.ReadOption) int64 {
	s.t.Helper()
	view, err := txn.Query(s.t.Context(), s.apps[asked], countsStore, txn.AtPartition(p), options...)
	if errors.Is(err, txn.ErrNotServing) {
		return -1
	}
	if err != nil {
		s.t.Fatal(err)
	}
	defer view.Close()
	return countOf(s.t, view, p)
}

// TestQueryStandby: a copy answers where the caller allows it, with the position of a commit, and
// not if it is too old or below the bound. The owner answers then.
func TestQueryStandby(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := pairOf(t, withStandbys(1))
		s.feedAll()
		s.await("the copies to be where the tasks are", func() bool {
			return s.atEnd(1, "one", "two") && s.warm("one", 2) && s.warm("two", 2)
		})
		_, p := s.of("one")
		query := func(options ...txn.ReadOption) (*countView, error) {
			return txn.Query(t.Context(), s.apps["one"], countsStore, txn.AtPartition(p), options...)
		}
		want := func(what, instance string, count int64, options ...txn.ReadOption) (round state.RoundID) {
			t.Helper()
			view, err := query(options...)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			defer view.Close()
			age, copied := view.Standby()
			if n := countOf(t, view, p); view.Instance() != instance || copied != (instance == "one") || n != count || age > 5*time.Second {
				t.Errorf("%s: %s has count %d, a copy: %t, of age %s", what, view.Instance(), n, copied, age)
			}
			if copied != (view.Epoch() == txn.Epoch{}) {
				t.Errorf("%s: a view of epoch %s", what, view.Epoch())
			}
			return view.Round()
		}
		owner := want("by default", "two", 1)
		if copied := want("a copy allowed", "one", 1, txn.Standbys(5*time.Second)); copied != owner {
			t.Errorf("the copy is at round %s, the owner at %s", copied, owner)
		}
		want("a copy that is too old", "two", 1, txn.Standbys(time.Nanosecond))
		s.feedAll()
		s.await("the record at the owner", func() bool { return s.counts("two", p) == 2 })
		if n := s.counts("one", p, txn.Standbys(5*time.Second), txn.AtLeast("in", p, 1)); n != 2 {
			t.Errorf("while the copy is below the bound, the count is %d", n)
		}
		s.await("the record at the copy", func() bool { return s.counts("one", p, txn.Standbys(time.Minute)) == 2 })
		s.hosts["two"].Kill()
		s.abandon("two")
		if _, err := query(); !errors.Is(err, txn.ErrNotServing) {
			t.Errorf("an owner that is dead answers with %v", err)
		}
		want("the copy of an owner that is dead", "one", 2, txn.Standbys(5*time.Second))
	})
}

// TestQueryOfAFrozenOwner: where copies are allowed, one at a third instance answers before the owner
// is given up. The control without copies is refused once the owner was silent for long enough.
func TestQueryOfAFrozenOwner(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := pairOf(t, withStandbys(1))
		s.start("three", withStandby)
		s.feedAll()
		all := []string{"one", "two", "three"}
		s.await("a task at least and warm copies", func() bool {
			warm := 0
			for _, instance := range all {
				if len(s.apps[instance].Status().Tasks) == 0 {
					return false
				}
				for _, c := range s.apps[instance].Status().Standbys {
					if c.State == txn.StandbyWarm {
						warm++
					}
				}
			}
			return warm == 4
		})
		owner, _ := s.ownerOf(0)
		copied, asked := "", ""
		for _, instance := range all {
			has := slices.ContainsFunc(s.apps[instance].Status().Standbys, func(c txn.StandbyStatus) bool { return c.ID.Partition == 0 })
			switch {
			case has:
				copied = instance
			case instance != owner:
				asked = instance
			}
		}
		if copied == "" || asked == "" {
			t.Fatalf("partition 0 is at %q, its copy at %q", owner, copied)
		}
		s.hosts[owner].Stall()
		defer s.hosts[owner].Resume()
		view, err := txn.Query(t.Context(), s.apps[asked], countsStore, txn.AtPartition(0), txn.Standbys(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		defer view.Close()
		if _, ok := view.Standby(); !ok || view.Instance() != copied {
			t.Errorf("%q has answered, a copy: %t, want the copy of %q", view.Instance(), ok, copied)
		}
		if n := countOf(t, view, 0); n != 1 {
			t.Errorf("the count is %d", n)
		}
	})
}

// TestQueryEndsWithItsContext: a view of Query is not read any more once the context has ended, also
// one of the process itself. One of Read has no context.
func TestQueryEndsWithItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := pairOf(t, nil)
		s.feedAll()
		s.await("the counts", func() bool { return s.atEnd(1, "one", "two") })
		own, other := s.of("one")
		for _, p := range []int32{own, other} {
			ctx, cancel := context.WithCancel(t.Context())
			view, err := txn.Query(ctx, s.apps["one"], countsStore, txn.AtPartition(p))
			if err != nil {
				t.Fatal(err)
			}
			rows := 0
			var ended error
			for _, err := range view.Store().All() {
				if ended = err; err == nil {
					rows++
				}
			}
			if rows != 1 || ended != nil {
				t.Errorf("partition %d has %d rows, %v", p, rows, ended)
			}
			cancel()
			for _, ended = range view.Store().All() {
				if ended == nil {
					t.Errorf("partition %d is scanned after the end of the context", p)
				}
			}
			if _, _, err := view.Store().Get("x"); !errors.Is(err, context.Canceled) || !errors.Is(ended, context.Canceled) {
				t.Errorf("after the end of the context partition %d answers with %v and %v", p, err, ended)
			}
			_ = view.Close()
		}
		local, err := txn.Read(s.apps["one"], countsStore, own)
		if err != nil {
			t.Fatal(err)
		}
		defer local.Close()
		if n := countOf(t, local, own); n != 1 {
			t.Errorf("Read has the count %d", n)
		}
	})
}

// TestQueryAfterAnInputGrew: a key is looked for in the partition that its rows are in, which the
// number of tasks decides. The partitions that the input has gained have no rows.
func TestQueryAfterAnInputGrew(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		top := countTopology(t)
		cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1})
		_, stop := start(t, top, cfg)
		feed(t, b, 200)
		b.read(t, "out", 200)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		b.addPartitions(t, 3, "in")
		app, _ := start(t, top, cfg)
		waitFor(t, "two tasks", running(app, 2))
		for n := range 20 {
			key := fmt.Sprint("k", n)
			view, err := txn.Query(t.Context(), app, countsStore, txn.AtKey(schemas.String(), key))
			if err != nil {
				t.Fatalf("key %s: %v", key, err)
			}
			if got, want := view.Positions().Inputs[0].Partition, graph.PartitionOf([]byte(key), 2); got != want {
				t.Errorf("key %s is looked for in partition %d, want %d", key, got, want)
			}
			_ = view.Close()
		}
		if _, err := txn.Query(t.Context(), app, countsStore, txn.AtPartition(2)); !errors.Is(err, txn.ErrUnknownPartition) {
			t.Errorf("a partition that no task reads: %v", err)
		}
	})
}

// TestQueryMetrics: queries are counted by store and by what became of them.
func TestQueryMetrics(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := pairOf(t, nil)
		s.feedAll()
		s.await("the counts", func() bool { return s.atEnd(1, "one", "two") })
		own, other := s.of("one")
		app := s.apps["one"]
		for _, q := range []struct {
			partition int32
			option    txn.ReadOption
		}{
			{own, txn.Stale()}, {other, txn.Stale()}, {other, txn.Stale()}, {own, txn.AtLeast("in", own, 99)}, {other, txn.AtLeast("other", 0, 0)},
			{77, txn.Stale()},
		} {
			if view, err := txn.Query(t.Context(), app, countsStore, txn.AtPartition(q.partition), q.option); err == nil {
				_ = view.Close()
			}
		}
		if _, err := txn.Query(t.Context(), app, kindsSeen, txn.AtPartition(0)); !errors.Is(err, state.ErrUnknownStore) {
			t.Errorf("a store that there is not: %v", err)
		}
		scrape(t, app).expect(t, series{
			`onceward_query_seconds_count{outcome="answered",store="counts"}`: 1, `onceward_query_seconds_count{outcome="forwarded",store="counts"}`: 2,
			`onceward_query_seconds_count{outcome="refused",store="counts"}`: 1, `onceward_query_seconds_count{outcome="failed",store="counts"}`: 2,
		})
		if n := scrape(t, app).sum("onceward_query_seconds_count"); n != 6 {
			t.Errorf("%g queries are counted", n)
		}
		if n := scrape(t, s.apps["two"]).sum("onceward_query_seconds_count"); n != 0 {
			t.Errorf("the instance that is asked by another one counts %g queries", n)
		}
	})
}

// TestQueryHandler: any instance answers over HTTP for tasks of another one, in JSON and for a
// Client, and serves only the stores that it was given.
func TestQueryHandler(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := pairOf(t, nil)
		s.feedAll()
		s.await("the counts", func() bool { return s.atEnd(1, "one", "two") })
		app := s.apps["one"]
		_, p := s.of("one")
		handler, err := app.QueryHandler(countsStore)
		if err != nil {
			t.Fatal(err)
		}
		get := func(url string) (int, map[string]any) {
			t.Helper()
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))
			out := map[string]any{}
			if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
				t.Fatalf("%s answers %q: %v", url, w.Body, err)
			}
			return w.Code, out
		}
		status, out := get(fmt.Sprintf("/counts?key=p%d&partition=%d", p, p))
		if want := fmt.Sprintf("[map[key:p%d value:1]]", p); status != http.StatusOK || fmt.Sprint(out["rows"]) != want || out["instance"] != "two" {
			t.Errorf("the answer is %d %v, want rows %s of two", status, out, want)
		}
		if at := fmt.Sprint(out["position"]); !strings.Contains(at, fmt.Sprintf("offset:1 partition:%d", p)) || !strings.Contains(at, "round:") {
			t.Errorf("the position is %s", at)
		}
		if status, out := get("/counts?key=new"); status != http.StatusOK || fmt.Sprint(out["rows"]) != "[]" {
			t.Errorf("a key without a row: %d %v", status, out)
		}
		for url, want := range map[string]string{
			"/other?key=a":                                            "404 unknown-store",
			"/counts":                                                 "400 request",
			"/counts?key=a&limit=x":                                   "400 request",
			"/counts?key=a&standby=soon":                              "400 request",
			"/counts?key=a&at_least=in":                               "400 request",
			"/counts?partition=0&fromkey=a":                           "400 request",
			"/counts?partition=0&record_key=YQ":                       "400 request",
			"/counts?key=a&partition=4":                               "404 unknown-partition",
			"/counts?partition=0&at_least=other/0/1":                  "400 not-read",
			fmt.Sprintf("/counts?partition=%d&at_least=other/0/1", p): "400 not-read",
			"/counts?partition=0&at_least=in/0/77":                    "503 behind",
		} {
			if status, out := get(url); fmt.Sprint(status, " ", out["reason"]) != want {
				t.Errorf("%s answers %d %v, want %s", url, status, out, want)
			}
		}

		server := &http.Server{Handler: http.StripPrefix("/queries", handler), ReadHeaderTimeout: time.Minute}
		l, err := s.network.Host("web").Listen("127.0.0.1:9000")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { defer close(done); _ = server.Serve(l) }()
		transport := &http.Transport{DialContext: s.network.Host("browser").Dial}
		defer func() { transport.CloseIdleConnections(); _ = server.Close(); <-done }()
		client, err := txn.NewClient("http://127.0.0.1:9000/queries", &http.Client{Transport: transport})
		if err != nil {
			t.Fatal(err)
		}
		for q := range int32(4) {
			view, err := txn.Query(t.Context(), client, countsStore, txn.AtPartition(q), txn.AtLeast("in", q, 0))
			if err != nil {
				t.Fatal(err)
			}
			instance, member := s.ownerOf(q)
			if err := judge(view, instance, member); err != nil {
				t.Error(err)
			}
			if n := countOf(t, view, q); n != 1 {
				t.Errorf("the count of %d is %d", q, n)
			}
			_ = view.Close()
		}
		if _, err := txn.Query(t.Context(), client, countsStore, txn.AtPartition(p), txn.AtLeast("in", p, 1)); !errors.Is(err, txn.ErrBehind) {
			t.Errorf("the bound of a client: %v", err)
		}
		if _, err := txn.Query(t.Context(), client, kindsSeen, txn.AtPartition(p)); !errors.Is(err, state.ErrUnknownStore) {
			t.Errorf("a store that is not served: %v", err)
		}
		_, err = txn.Query(t.Context(), client, countsStore, txn.AtPartition(4))
		if !errors.Is(err, txn.ErrUnknownPartition) || errors.Is(err, txn.ErrNotServing) {
			t.Errorf("a partition that does not exist: %v", err)
		}
		astray, err := txn.NewClient("http://127.0.0.1:9000/elsewhere", &http.Client{Transport: transport})
		if err != nil {
			t.Fatal(err)
		}
		_, err = txn.Query(t.Context(), astray, countsStore, txn.AtPartition(0))
		if err == nil || errors.Is(err, txn.ErrNotServing) || !strings.Contains(err.Error(), "127.0.0.1:9000/elsewhere/counts") || !strings.Contains(err.Error(), "404") {
			t.Errorf("where there is no handler: %v", err)
		}
		if _, err := txn.NewClient("not a url", nil); err == nil {
			t.Error("NewClient takes what is no URL")
		}
		if _, err := app.QueryHandler(kindsSeen); !errors.Is(err, state.ErrUnknownStore) {
			t.Errorf("a handler for a store that there is not: %v", err)
		}
	})
}

// TestQueryOfALostStore: no copy answers for a store that nothing restores, because it would say that
// a committed row is absent. The owner does.
func TestQueryOfALostStore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		text, number := schemas.String(), schemas.Int64()
		counts, lost := topology.KeyValueStore("counts", text, number), topology.KeyValueStore("lost", text, number).LostOnRestart()
		b := topology.NewBuilder("counting")
		topology.Stateful(topology.From(b, topology.Topic("in", text, text)), "count", counts, lost).Process(
			func(s *topology.Setup) (topology.Handler[string, string], error) {
				counted, alsoLost := counts.In(s), lost.In(s)
				return func(_ *topology.Context, r topology.Record[string, string]) error {
					return errors.Join(counted.Put(r.Key, 1), alsoLost.Put(r.Key, 1))
				}, nil
			})
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		s := newPeerScene(t)
		s.topology = top
		for _, instance := range []string{"one", "two"} {
			s.start(instance, func(cfg *txn.Config) { cfg.Standbys = 1 })
		}
		s.await("two tasks each", func() bool { return s.balanced() && s.connected() })
		s.feedAll()
		s.await("warm copies", func() bool { return s.atEnd(1, "one", "two") && s.warm("one", 2) && s.warm("two", 2) })
		_, p := s.of("one") // a partition of the other instance, of which "one" has a copy
		for _, store := range []topology.Store[state.KeyValue[string, int64]]{counts, lost} {
			fromCopy := store.Name() == "counts"
			view, err := txn.Query(t.Context(), s.apps["one"], store, txn.AtPartition(p), txn.Standbys(5*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			n, _, err := view.Store().Get(fmt.Sprint("p", p))
			if _, copied := view.Standby(); err != nil || n != 1 || copied != fromCopy {
				t.Errorf("%s has the row %d (%v) of a copy: %t, want 1 of a copy: %t", store.Name(), n, err, copied, fromCopy)
			}
			if err := view.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
