package topology_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/codectest"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

func sessionStore(w topology.SessionWindows) topology.Store[state.Session[string, string]] {
	return topology.SessionStore("sessions", schemas.String(), schemas.String(), w.Retention())
}

// sessions puts the values of sessions one behind the other.
func sessions(b *topology.Builder, w topology.SessionWindows) topology.SessionTable[string, string] {
	return sessionsOf(topology.From(b, leftTopic, topology.SkipNullKeys()), w)
}

func sessionsOf(s topology.Stream[string, string], w topology.SessionWindows) topology.SessionTable[string, string] {
	return topology.ReduceSessions(s, w, sessionStore(w), func(a, b string) (string, error) {
		if b == "remove" {
			return "", topology.ErrRemove
		}
		return a + b, nil
	})
}

// sessionsTask shows every update of sessions.
func sessionsTask(tb testing.TB, w topology.SessionWindows) *task {
	tb.Helper()
	nullable := topology.Topic("result", schemas.String(), topology.Nullable(schemas.String()))
	return tableTask(tb, func(b *topology.Builder) { named(sessions(b, w).Stream(), "name").Into(nullable) })
}

// TestSessions: the gap and its boundary, records inside, before and after a session, sessions that
// become one, and the boundary of what is late.
func TestSessions(t *testing.T) {
	k := sessionsTask(t, topology.Sessions(10*ms).Grace(5*ms))
	wantLines(t, k.script("left 0 a p", "left 5 a q", "left 3 a r", "left 15 a s", "left 26 a t", "left 11 a u", "left 20 a v",
		"left 10 b x", "left 11 b y", "left 26 a w", "left 60 c m", "left 60 c n", "left 61 c remove", "left 62 c o"),
		"a[0,0)=p@0",
		"a[0,0)=-@0 a[0,5)=pq@5",
		"a[0,5)=-@5 a[0,5)=pqr@5",
		"a[0,5)=-@5 a[0,15)=pqrs@15",
		"a[26,26)=t@26",
		"a[0,15)=-@15 a[0,15)=pqrsu@15",
		"a[0,15)=-@15 a[26,26)=-@26 a[0,26)=pqrsutv@26",
		"",
		"b[11,11)=y@11",
		"a[0,26)=-@26 a[0,26)=pqrsutvw@26",
		"c[60,60)=m@60",
		"c[60,60)=mn@60",
		"c[60,60)=-@60 c[60,61)=-@61",
		"c[62,62)=o@62")
	if n := countsOf(k.send("left", 40, "d", "x")); n != "sessions.late=1" {
		t.Errorf("counted are %q", n)
	}
}

// TestSessionsWithoutGrace: a session that ends the gap behind the stream time still takes records.
func TestSessionsWithoutGrace(t *testing.T) {
	k := sessionsTask(t, topology.Sessions(10*ms))
	wantLines(t, k.script("left 20 a p", "left 10 b q", "left 10 b r", "left 9 b s", "left 8 c t"),
		"a[20,20)=p@20", "b[10,10)=q@10", "b[10,10)=qr@10", "b[10,10)=-@10 b[9,10)=qrs@10", "")
}

// TestSessionOldValues: each change says what was before, so that an aggregation of the table
// subtracts what it has added.
func TestSessionOldValues(t *testing.T) {
	k := tableTask(t, func(b *topology.Builder) {
		changes := sessions(b, topology.Sessions(10*ms)).Changes()
		shown := topology.MapValuesWithRecord(changes, "show", func(r topology.Record[windowKey, topology.Change[string]]) (string, error) {
			return show(r.Value.Old) + ">" + show(r.Value.New), nil
		})
		named(shown, "name").Into(resultTopic)
	})
	wantLines(t, k.script("left 0 a p", "left 0 a q", "left 5 a r"), "a[0,0)=->p@0", "a[0,0)=p>pq@0", "a[0,0)=pq>-@0 a[0,5)=->pqr@5")
}

// TestSessionStepsOwnTheirValues: steps that change what they get do not change what was emitted as
// the value before.
func TestSessionStepsOwnTheirValues(t *testing.T) {
	w := topology.Sessions(10 * ms)
	store := topology.SessionStore("sets", schemas.String(), schemas.JSON[map[string]int](), w.Retention())
	k := tableTask(t, func(b *topology.Builder) {
		table := topology.AggregateSessions(topology.From(b, leftTopic), w, store, func() map[string]int { return map[string]int{} },
			func(sofar map[string]int, r word) (map[string]int, error) {
				sofar[r.Value]++
				return sofar, nil
			},
			func(_ string, a, b map[string]int) (map[string]int, error) {
				for word, n := range a {
					b[word] += n
				}
				return b, nil
			})
		shown := topology.MapValuesWithRecord(table.Changes(), "show", func(r topology.Record[windowKey, topology.Change[map[string]int]]) (string, error) {
			return show(r.Value.Old) + ">" + show(r.Value.New), nil
		})
		named(shown, "name").Into(resultTopic)
	})
	wantLines(t, k.script("left 0 a p", "left 0 a q", "left 5 a p"),
		"a[0,0)=->map[p:1]@0", "a[0,0)=map[p:1]>map[p:1 q:1]@0", "a[0,0)=map[p:1 q:1]>-@0 a[0,5)=->map[p:2 q:1]@5")
}

// TestSessionTable: a join looks sessions up by key, start and end.
func TestSessionTable(t *testing.T) {
	w := topology.Sessions(10 * ms)
	k := tableTask(t, func(b *topology.Builder) {
		s := topology.From(b, leftTopic)
		counts := topology.SessionStore("counts", schemas.String(), schemas.Int64(), w.Retention())
		both := topology.JoinTables(sessionsOf(s, w).Table, topology.CountSessions(s, w, counts).Table, "both",
			func(_ windowKey, text string, n int64) (string, error) {
				return text + ":" + show(topology.Some(n)), nil
			})
		nullable := topology.Topic("result", schemas.String(), topology.Nullable(schemas.String()))
		named(both.Stream(), "name").Into(nullable)
	})
	wantLines(t, k.script("left 0 a p", "left 5 a q"), "a[0,0)=p:1@0", "a[0,0)=-@0 a[0,5)=pq:2@5")
}

// closedSessionsTask shows sessions that have closed.
func closedSessionsTask(tb testing.TB, w topology.SessionWindows) *task {
	tb.Helper()
	return tableTask(tb, func(b *topology.Builder) { named(sessions(b, w).Closed(), "name").Into(resultTopic) })
}

// TestClosedSessions: a session closes when the stream time has passed its end by more than the gap
// and the grace, once, with the value that it has then. Sessions close by their ends and then by
// their keys.
func TestClosedSessions(t *testing.T) {
	k := closedSessionsTask(t, topology.Sessions(10*ms).Grace(5*ms))
	wantLines(t, k.script("left 1 b p", "left 3 a q", "left 8 a r", "left 16 c s", "left 17 c t", "left 23 c u", "left 7 a v",
		"left 24 c w", "left 500 a x", "left 515 a y", "left 516 a z", "left 400 b late"),
		"", "", "", "", "b[1,1)=p@1", "", "", "a[3,8)=qrv@8", "c[16,24)=stuw@24", "", "a[500,500)=x@500", "")
	in := k.input("left", []byte("a"), []byte("x"))
	in.Timestamp, in.Headers = 1000, []topology.Header{{Key: "trace", Value: []byte("1")}}
	v := want(t, k.graph.Process(in), graph.Accept)
	if len(v.Outputs) != 1 || len(v.Outputs[0].Headers) != 0 {
		t.Errorf("the outputs are %v, want one without the headers of the record that has closed the session", v.Outputs)
	}
}

// TestClosedSessionsThatMerge: sessions that became one close as one, and a session that was
// removed has no record.
func TestClosedSessionsThatMerge(t *testing.T) {
	k := closedSessionsTask(t, topology.Sessions(10*ms).Grace(10*ms))
	wantLines(t, k.script("left 0 a p", "left 15 a q", "left 8 a r", "left 15 b s", "left 16 b remove", "left 100 c t", "left 200 c u"),
		"", "", "", "", "", "a[0,15)=pqr@15", "c[100,100)=t@100")
}

// TestClosedSessionsAreTheUpdates: whatever comes, and however long the store keeps sessions, what
// closes is what the updates have left, each session once and in the order of the ends.
// e2e/conformance compares the updates with those of Kafka Streams.
func TestClosedSessionsAreTheUpdates(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		w := topology.Sessions(10 * ms).Grace(time.Duration(random.IntN(8)) * ms)
		store := topology.SessionStore("sessions", schemas.String(), schemas.Int64(), w.Retention()+time.Duration(random.IntN(2)*100)*ms)
		k := tableTask(t, func(b *topology.Builder) {
			counts := topology.CountSessions(topology.From(b, leftTopic), w, store)
			updates := topology.Topic("updates", schemas.String(), topology.Nullable(schemas.Int64()))
			named(counts.Stream(), "name").Into(updates)
			named(counts.Closed(), "closed-name").Into(topology.Topic("closed", schemas.String(), schemas.Int64()))
		})
		left, closed := map[string]string{}, map[string]string{}
		var lastEnd int64
		send := func(ms int64, key string) {
			for _, out := range want(t, k.send("left", ms, key, "x"), graph.Accept).Outputs {
				session, value := string(out.Key), shown(out.Value)
				switch {
				case out.Topic == "updates" && out.Value == nil:
					delete(left, session)
				case out.Topic == "updates":
					left[session] = value
				case closed[session] != "" || out.Timestamp < lastEnd:
					t.Errorf("seed %d: %s closes again, or after one that ended at %d", seed, session, lastEnd)
				default:
					closed[session], lastEnd = value, out.Timestamp
				}
			}
		}
		at := int64(1000)
		for range 60 {
			at += int64(random.IntN(8) * random.IntN(4))
			send(at-int64(random.IntN(30)*random.IntN(2)), string(rune('a'+random.IntN(3))))
		}
		send(at+1_000_000, "end")
		delete(left, fmt.Sprintf("end[%d,%d)", at+1_000_000, at+1_000_000))
		if !maps.Equal(left, closed) {
			t.Errorf("seed %d: the updates leave %v, closed are %v", seed, left, closed)
		}
	}
}

// TestFailedRecordClosesNoSession: the stream time of the node goes back, and the sessions are
// still open.
func TestFailedRecordClosesNoSession(t *testing.T) {
	w := topology.Sessions(10 * ms)
	k := tableTask(t, func(b *topology.Builder) {
		table := topology.ReduceSessions(topology.From(b, leftTopic), w, sessionStore(w), func(a, b string) (string, error) {
			if b == "fail" {
				return "", topology.Fail(topology.Validation, schemas.Reason("asked to"))
			}
			return a + b, nil
		})
		named(table.Closed(), "name").Into(resultTopic)
	})
	wantLines(t, k.script("left 1 a p", "left 20 b q"), "", "a[1,1)=p@1")
	want(t, k.send("left", 30, "b", "fail"), topology.DeadLetter)
	wantLines(t, k.script("left 21 b r", "left 40 c s"), "", "b[20,21)=qr@21")
}

// TestClosedSessionMode: a closed session is live if one of its records was, and otherwise in the
// mode of the first one.
func TestClosedSessionMode(t *testing.T) {
	for name, test := range map[string]struct {
		modes []string
		want  string
	}{
		"live":        {[]string{"", ""}, ""},
		"replay":      {[]string{"REPLAY", "REPAIR"}, "[REPLAY]"},
		"live first":  {[]string{"", "REPLAY"}, ""},
		"live second": {[]string{"REPLAY", ""}, ""},
		"live merged": {[]string{"REPLAY", "REPAIR", ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := closedSessionsTask(t, topology.Sessions(10*ms))
			for i, mode := range test.modes {
				in := k.input("left", []byte("a"), []byte("x"))
				in.Timestamp, in.StreamTime = int64(i), int64(i)
				if mode != "" {
					in.Headers = []topology.Header{{Key: topology.HeaderMode, Value: []byte(mode)}}
				}
				want(t, k.graph.Process(in), graph.Accept)
			}
			v := want(t, k.send("left", 1000, "b", "x"), graph.Accept)
			if len(v.Outputs) != 1 || modeOf(v.Outputs[0].Headers) != test.want {
				t.Errorf("the outputs are %v, want one in the mode %q", v.Outputs, test.want)
			}
		})
	}
}

func TestSessionMistakes(t *testing.T) {
	b := topology.NewBuilder("app")
	s := topology.From(b, leftTopic)
	store := func(name string, retention time.Duration) topology.Store[state.Session[string, int64]] {
		return topology.SessionStore(name, schemas.String(), schemas.Int64(), retention)
	}
	topology.CountSessions(s, topology.SessionWindows{}, store("none", time.Hour))
	topology.CountSessions(s, topology.Sessions(time.Microsecond), store("gap", time.Hour))
	topology.CountSessions(s, topology.Sessions(time.Second).Grace(-1), store("grace", time.Hour))
	topology.CountSessions(s, topology.Sessions(time.Second).Grace(time.Second), store("short", 2*time.Second))
	topology.ReduceSessions(s, topology.Sessions(time.Second), topology.SessionStore("nil", schemas.String(), schemas.String(), time.Hour), nil)
	_, err := b.Build()
	wantMistakes(t, err,
		"none: the sessions have no gap; Sessions makes them",
		"gap: the gap of sessions is whole milliseconds, from 1 ms to 100 years, not 1µs",
		"grace: the grace of sessions is whole milliseconds, from 0 to 100 years, not -1ns",
		"short: store short keeps sessions for 2s, which is less than their gap, their grace and a millisecond, 2.001s",
		"nil: the function is nil")
}

func TestSessionCodec(t *testing.T) {
	codec := topology.SessionCodec(schemas.String())
	b, err := codec.Append(nil, windowKey{Key: "ab", Start: 0x0102, End: 0x0304})
	if string(b) != "ab\x00\x00\x00\x00\x00\x00\x03\x04\x00\x00\x00\x00\x00\x00\x01\x02" || err != nil {
		t.Errorf("the bytes are %q, %v", b, err)
	}
	codectest.Run(t, codec, windowKey{}, windowKey{Key: codectest.Canary, Start: 60001, End: 60001},
		windowKey{Key: "\x00", Start: 0, End: math.MaxInt64})
	codectest.Refuses(t, codec, windowKey{Key: codectest.Canary, Start: 2, End: 1}, windowKey{Key: codectest.Canary, Start: -1, End: 1})
	for _, b := range []string{"", "shortshortshort", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"} {
		if w, err := codec.Decode([]byte(b)); err == nil || w != (windowKey{}) {
			t.Errorf("%q is decoded as %v", b, w)
		}
	}
	if topology.SessionCodec[string](nil) != nil {
		t.Error("there is a codec without one for the key")
	}
}
