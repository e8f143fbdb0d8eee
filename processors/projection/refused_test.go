package projection_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// refuseIf is for Peek, and refuses everything as long as *refuses is set.
func refuseIf[V any](refuses *bool) func(topology.Record[string, V]) error {
	return func(topology.Record[string, V]) error {
		if *refuses {
			return topology.Fail(topology.Validation, schemas.Reason("asked to"))
		}
		return nil
	}
}

// stubborn declares a projection whose Abandoned refuses what comes as long as *refuses is set.
func stubborn(b *topology.Builder, l projection.Limits, refuses *bool, opts ...projection.Option) texts {
	p := waiting(b, l, opts...)
	p.Abandoned().Peek("stubborn", refuseIf[projection.Abandoned[text]](refuses))
	return p
}

// wantWaiting fails the test unless that many records wait for one key.
func wantWaiting(tb testing.TB, d *processortest.Driver, n int) {
	tb.Helper()
	queues := d.Rows("texts-queues", 0)
	if got := len(d.Rows("texts-parked", 0)); got != n || len(queues) != 1 || queues["k"][8] != byte(n) {
		tb.Fatalf("%d records wait in the queues %q, want %d", got, queues, n)
	}
}

// advance lets the clock go on by that many seconds.
func advance(tb testing.TB, d *processortest.Driver, seconds int) {
	tb.Helper()
	for range seconds {
		if err := d.Advance(time.Second); err != nil {
			tb.Fatal(err)
		}
	}
}

// TestD3RefusedTwice: a record that is refused when its turn comes, and by Abandoned or its
// evidence too, is lost nowhere: it waits on, and the record that has released it is not to blame.
// A copy of it that comes later takes its place.
func TestD3RefusedTwice(t *testing.T) {
	for name, refuse := range map[string]func(p texts, refuses *bool){
		"Abandoned": func(p texts, refuses *bool) {
			p.Abandoned().Peek("stubborn", refuseIf[projection.Abandoned[text]](refuses))
		},
		"the evidence": func(p texts, refuses *bool) {
			p.Decisions().Peek("stubborn", func(r topology.Record[[]byte, decision.Decision]) error {
				if *refuses && r.Value.Outcome == "abandoned" {
					panic("asked to")
				}
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			refuses := true
			d := processortest.New(t, func(b *topology.Builder) { refuse(waiting(b, wide), &refuses) })
			send(d, "2:fail", "3:c", "1:a")
			d.Want("dead")
			d.Want("abandoned")
			d.Want("changes", `{"version":1,"value":["a"]}`)
			wantWaiting(t, d, 2)
			d.Restart()
			send(d, "2:b")
			d.Want("changes", `{"version":2,"value":["a","b"]}`, `{"version":3,"value":["a","b","c"]}`)
			d.Want("stale", `{"outcome":"duplicate","version":2,"applied":2,"value":"fail"}`)
			noneWaits(t, d)
			d.WantCounts("texts.applied=3 texts.duplicates=1 texts.parked=2 texts.released=1 texts.repairs=1 texts.stayed=1")
		})
	}
}

// TestD3RefusedAtLimit: where Abandoned does not take what a limit gives up, neither does the task
// stop nor is anything lost: the key waits anew.
func TestD3RefusedAtLimit(t *testing.T) {
	for name, l := range map[string]projection.Limits{
		"stream-time": limits(projection.FailFast), "wall-clock": {Records: 10, WallClock: 8 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			refuses := true
			d := processortest.New(t, func(b *topology.Builder) { stubborn(b, l, &refuses) })
			sendAt(d, 10, "1:a", "3:c", "5:e")
			for _, second := range []int{18, 26} {
				advance(t, d, 10)
				tick(d, second)
				d.Want("dead")
				d.Want("abandoned")
				wantWaiting(t, d, 2)
				d.Restart()
			}
			refuses = false
			tick(d, 33) // not as long as that after the last time
			if name == "stream-time" {
				d.Want("abandoned")
			}
			advance(t, d, 10)
			tick(d, 34)
			want := []string{}
			for _, record := range []string{`"expected":2,"actual":3,"value":"c"}`, `"expected":2,"actual":5,"value":"e"}`} {
				want = append(want, `{"reason":"`+name+`","message":"versions are missing before the one of the record",`+record)
			}
			d.Want("abandoned", want...)
			noneWaits(t, d)
		})
	}
}

// TestTooLargeAtLimit: a value that the topic of Abandoned does not take stays where it is.
func TestTooLargeAtLimit(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) { waiting(b, limits(projection.FailFast)) },
		topologytest.MaxMessageBytes("abandoned", 500))
	sendAt(d, 10, "1:a", "3:"+strings.Repeat("c", 500))
	tick(d, 18)
	d.Want("dead")
	d.Want("abandoned")
	wantWaiting(t, d, 1)
}

// TestTurnAtLimit: a record that was refused by all, and before which no version is missing, has
// its turn when the limit is reached.
func TestTurnAtLimit(t *testing.T) {
	for _, then := range []projection.GapPolicy{projection.FailFast, projection.AcceptLatest} {
		refuses := true
		d := processortest.New(t, func(b *topology.Builder) {
			stubborn(b, limits(then), &refuses).Changes().Peek("fragile", func(r topology.Record[string, row]) error {
				if r.Value.Version == 1 {
					return nil
				}
				return refuseIf[row](&refuses)(r)
			})
		})
		sendAt(d, 10, "2:b", "3:c", "5:e", "1:a")
		wantWaiting(t, d, 3)
		refuses = false
		tick(d, 18)
		d.Want("abandoned")
		if got := d.Rows("texts", 0)["k"][12:]; got != `["a","b","c"]` {
			t.Errorf("%s: the row is %s", then, got)
		}
		wantWaiting(t, d, 1)
	}
}

// TestD3NoRoomForStaying: where the first record stays, no gap can be accepted, and the record for
// which there is no room fails.
func TestD3NoRoomForStaying(t *testing.T) {
	refuses, few := true, wide
	few.Records, few.Then = 2, projection.AcceptLatest
	d := processortest.New(t, func(b *topology.Builder) { stubborn(b, few, &refuses) })
	send(d, "1:a", "3:fail", "5:e", "7:g")
	d.WantDeadLetter("texts", topology.Validation, "versions are missing before the one of the record, and as many "+
		"records of its key wait for them as may")
	wantWaiting(t, d, 2)
	refuses = false
	send(d, "7:g")
	d.Want("abandoned", `{"reason":"failed","message":"poison: asked to","expected":2,"actual":3,"value":"fail"}`)
	d.Want("changes", `{"version":1,"value":["a"]}`, `{"version":5,"value":["a","e"]}`)
	wantWaiting(t, d, 1)
}

// TestPassedAndRefused: a record of an earlier life that neither Stale nor Abandoned takes holds
// nothing of the new life up, and goes when they take it.
func TestPassedAndRefused(t *testing.T) {
	refuses := true
	d := processortest.New(t, func(b *topology.Builder) {
		p := stubborn(b, limits(projection.AcceptLatest), &refuses, projection.Incarnation(life))
		p.Stale().Peek("fragile", refuseIf[projection.Skipped[text]](&refuses))
	})
	sendLives(d, "1.1:a", "1.3:c", "2.1:A", "2.3:C", "2.2:B")
	d.Want("dead")
	d.Want("changes", `{"version":1,"incarnation":1,"value":["a"]}`, `{"version":1,"incarnation":2,"value":["A"]}`,
		`{"version":2,"incarnation":2,"value":["A","B"]}`, `{"version":3,"incarnation":2,"value":["A","B","C"]}`)
	wantWaiting(t, d, 1)
	sendLives(d, "2.5:E")
	tick(d, 10) // what is ahead of the row is given up all the same
	d.Want("gaps", `{"expected":4,"actual":5,"value":"E"}`)
	wantWaiting(t, d, 1)
	refuses = false
	tick(d, 18)
	noneWaits(t, d)
	d.Want("abandoned")
	d.Want("gaps")
	if got := d.Count("texts", "stale"); got != 1 {
		t.Errorf("%d records are stale", got)
	}
}

// TestD3TwinInBusyKey: a record whose copy has come, and that neither Stale nor Abandoned takes,
// goes in a later turn of its key, whether that ever reaches a limit or not; and what has been
// applied meanwhile is not asked for.
func TestD3TwinInBusyKey(t *testing.T) {
	for name, test := range map[string]struct {
		opts                []projection.Option
		stuck, behind, last []string
		waits               int
		repair              string
	}{
		"one life": {
			stuck: []string{"1.1:a", "1.3:fail", "1.2:b", "1.3:c"}, behind: []string{"1.4:d", "1.6:f"}, waits: 2,
			repair: `{"from":5,"to":5}`, last: []string{"1.5:e"},
		},
		"a next life waits": {
			opts:  []projection.Option{projection.Incarnation(life)},
			stuck: []string{"2.1:a", "2.3:fail", "2.2:b", "2.3:c"}, behind: []string{"3.2:B", "2.4:d", "2.6:f"}, waits: 3,
			repair: `{"from":5,"to":5,"incarnation":2}`, last: []string{"2.5:e", "3.1:A"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			refuses := true
			d := processortest.New(t, func(b *topology.Builder) {
				p := stubborn(b, wide, &refuses, test.opts...)
				p.Stale().Peek("fragile", refuseIf[projection.Skipped[text]](&refuses))
			})
			sendLives(d, test.stuck...)
			wantWaiting(t, d, 1)
			sendLives(d, test.behind...)
			wantWaiting(t, d, test.waits)
			repairs := d.Take("repairs")
			if got := string(repairs[len(repairs)-1].Value); got != test.repair {
				t.Errorf("at last %s was asked for, want %s", got, test.repair)
			}
			refuses = false
			sendLives(d, test.last...)
			noneWaits(t, d)
		})
	}
}

// TestD3ParkedBehindLimit: where what is behind the projection has a record parked or delayed, and
// a limit has released the record, it waits on, and is not given up at the first failure.
func TestD3ParkedBehindLimit(t *testing.T) {
	for name, policy := range map[string]topology.Policy{
		"park":  {Action: topology.Park, Backoff: time.Second, BackoffMax: time.Second},
		"delay": {Action: topology.Delay, Attempts: 3, Then: topology.DeadLetter},
	} {
		t.Run(name, func(t *testing.T) {
			down := true
			d := processortest.New(t, func(b *topology.Builder) {
				s := topology.From(b, eventsTopic, topology.ParkKeys(), topology.RetryTopics(time.Second))
				p := projection.Latest(s, "texts", version, appendText, listCodec, projection.FirstVersion(1),
					projection.ParkGaps(textCodec, limits(projection.AcceptLatest)))
				p.Changes().Peek("fragile", func(r topology.Record[string, row]) error {
					if down && r.Value.Version == 3 {
						return topology.Fail(topology.Transient, schemas.Reason("asked to"))
					}
					return nil
				}, topology.OnError(topology.Transient, policy))
				p.Abandoned().Peek("abandoned", func(r topology.Record[string, projection.Abandoned[text]]) error {
					t.Errorf("version %d is abandoned", r.Value.Actual)
					return nil
				})
			})
			other := func(at int) {
				d.Pipe("events", "other", `"tick"`, topologytest.Header("version", "1"), second(at))
			}
			sendAt(d, 10, "1:a", "3:c", "4:d")
			other(18)
			wantWaiting(t, d, 2)
			down = false
			other(25)
			wantWaiting(t, d, 2)
			other(26)
			if got := d.Rows("texts", 0)["k"][12:]; got != `["a","c","d"]` {
				t.Errorf("the row is %s", got)
			}
			noneWaits(t, d)
			d.Want("dead")
		})
	}
}

// TestUnmeasuredAtLimit: a codec that refuses what it has read is no reason for a look at the
// limits to fail.
func TestUnmeasuredAtLimit(t *testing.T) {
	refuses := false
	d := processortest.New(t, func(b *topology.Builder) {
		p := projection.Latest(topology.From(b, eventsTopic), "texts", version, appendText, listCodec, projection.FirstVersion(1),
			projection.ParkGaps[text](refusing{textCodec, &refuses}, limits(projection.AcceptLatest)))
		p.Abandoned().Peek("end", func(topology.Record[string, projection.Abandoned[text]]) error { return nil })
	})
	sendAt(d, 10, "1:a", "3:c")
	refuses = true
	d.Pipe("events", "other", `"tick"`, topologytest.Header("version", "1"), second(18))
	d.Want("dead")
	if got := d.Rows("texts", 0)["k"][12:]; got != `["a","c"]` {
		t.Errorf("the row is %s", got)
	}
	noneWaits(t, d)
}

// refusing is a codec that writes nothing as long as *refuses is set.
type refusing struct {
	schemas.Codec[text]
	refuses *bool
}

func (m refusing) Append(dst []byte, v text) ([]byte, error) {
	if *m.refuses {
		return dst, schemas.Reason("asked to")
	}
	return m.Codec.Append(dst, v)
}

// TestFoldChangesInPlace: what a fold has made of a row in memory before it was refused is not in
// the row that the next one gets.
func TestFoldChangesInPlace(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		fold := func(old []string, _ bool, r event) ([]string, error) {
			if len(old) == 0 {
				return []string{r.Value.Or("")}, nil
			}
			old[0] += r.Value.Or("")
			if r.Value.Or("") == "fail" {
				return nil, schemas.Reason("asked to")
			}
			return old, nil
		}
		p := projection.Latest(topology.From(b, eventsTopic), "texts", version, fold, listCodec, projection.FirstVersion(1),
			projection.ParkGaps(textCodec, limits(projection.AcceptLatest)))
		p.Abandoned().Peek("end", func(topology.Record[string, projection.Abandoned[text]]) error { return nil })
	})
	sendAt(d, 10, "1:a", "3:fail", "5:e")
	d.Pipe("events", "other", `"tick"`, topologytest.Header("version", "1"), second(18))
	if got := d.Rows("texts", 0)["k"][12:]; got != `["ae"]` {
		t.Errorf("the row is %s", got)
	}
}

// TestD3ExpiryInPortions: a look gives up no more than fits into a transaction, and the next one
// goes on, at times that the records say, over a restart too.
func TestD3ExpiryInPortions(t *testing.T) {
	const keys, first = 10_001, 10_000
	fill := func(d *processortest.Driver, n int, text string) {
		for i := range n {
			d.Pipe("events", fmt.Sprintf("k%05d", i), `"`+text+`"`, topologytest.Header("version", "2"), second(10))
		}
	}
	wantAbandoned := func(d *processortest.Driver, n int) {
		t.Helper()
		if got := len(d.Take("abandoned")); got != n {
			t.Errorf("%d records are abandoned, want %d", got, n)
		}
	}
	d := newWaiting(t, limits(projection.FailFast))
	fill(d, keys, "b")
	tick(d, 18)
	wantAbandoned(d, first)
	d.Restart()
	tick(d, 18)
	wantAbandoned(d, 0)
	tick(d, 19)
	wantAbandoned(d, keys-first)
	noneWaits(t, d)

	d = newWaiting(t, projection.Limits{Records: 10, WallClock: 8 * time.Second})
	fill(d, keys, "b")
	advance(t, d, 8) // the last of them is seen a look later
	wantAbandoned(d, 0)
	advance(t, d, 1)
	wantAbandoned(d, first)
	advance(t, d, 1)
	wantAbandoned(d, keys-first)
	noneWaits(t, d)

	d = newWaiting(t, limits(projection.FailFast))
	fill(d, 20, strings.Repeat("b", 1<<20))
	tick(d, 18)
	wantAbandoned(d, 16)
	tick(d, 19)
	wantAbandoned(d, 4)
	noneWaits(t, d)
}
