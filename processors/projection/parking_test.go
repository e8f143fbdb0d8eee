package projection_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// TestGapParksRecords: records wait for those before them, across a restart, and are released in
// their order. Row of the failure matrix: gap. Requirement D3.
func TestGapParksRecords(t *testing.T) {
	d := newWaiting(t, wide)
	send(d, "1:a", "5:e", "3:c", "4:d")
	d.Want("changes", `{"version":1,"value":["a"]}`)
	d.Want("parked", `{"expected":2,"actual":5,"value":"e"}`, `{"expected":2,"actual":3,"value":"c"}`,
		`{"expected":2,"actual":4,"value":"d"}`)
	d.Restart()
	send(d, "2:b", "6:f")
	d.Want("changes", `{"version":2,"value":["a","b"]}`, `{"version":3,"value":["a","b","c"]}`,
		`{"version":4,"value":["a","b","c","d"]}`, `{"version":5,"value":["a","b","c","d","e"]}`,
		`{"version":6,"value":["a","b","c","d","e","f"]}`)
	d.Want("dead")
	d.Want("abandoned")
	noneWaits(t, d)
	d.WantCounts("texts.applied=6 texts.parked=3 texts.released=3 texts.repairs=1")
}

// TestFirstVersionParks: with FirstVersion the first record of a key waits as well, and one below
// it is refused. Requirement D3.
func TestFirstVersionParks(t *testing.T) {
	d := newWaiting(t, wide)
	send(d, "2:-", "3:c")
	d.Want("changes")
	send(d, "1:a")
	d.Want("changes", `{"version":1,"value":["a"]}`, `{"version":2,"deleted":true,"value":null}`,
		`{"version":3,"value":["c"]}`)
	noneWaits(t, d)
	d = newWaiting(t, wide)
	send(d, "0:x")
	d.WantDeadLetter("texts", topology.Validation, "the version is lower than the first one of an aggregate")
}

// TestCopyOfAParkedRecordIsADuplicate: a copy of a record that waits is a duplicate, and the first
// one stays. Requirement D3.
func TestCopyOfAParkedRecordIsADuplicate(t *testing.T) {
	d := newWaiting(t, wide)
	send(d, "3:c", "3:x")
	d.Want("stale", `{"outcome":"duplicate","version":3,"applied":0,"value":"x"}`)
	send(d, "1:a", "3:y", "2:b", "3:z")
	d.Want("stale", `{"outcome":"duplicate","version":3,"applied":1,"value":"y"}`,
		`{"outcome":"duplicate","version":3,"applied":3,"value":"z"}`)
	if changes := d.Take("changes"); string(changes[len(changes)-1].Value) != `{"version":3,"value":["a","b","c"]}` {
		t.Errorf("the last change is %s", changes[len(changes)-1].Value)
	}
}

// TestRepairIsRequestedOnce: every missing version is asked for once, when it is first seen.
// Requirement D3.
func TestRepairIsRequestedOnce(t *testing.T) {
	d := newWaiting(t, wide)
	send(d, "3:c")
	d.Want("repairs", `{"from":1,"to":2}`)
	send(d, "2:b", "4:d", "8:h", "6:f", "7:g")
	d.Want("repairs", `{"from":5,"to":7}`)
	send(d, "1:a", "5:e", "9:i", "11:k", "3:c")
	d.Want("repairs", `{"from":10,"to":10}`)
	d.WantCounts("texts.applied=9 texts.parked=7 texts.released=6 texts.repairs=3 texts.stale=1")
}

// TestRepairOfEachIncarnation: what is missing in one incarnation is asked for although a higher
// one waits, and once too. Requirement D3.
func TestRepairOfEachIncarnation(t *testing.T) {
	d := newWaiting(t, wide, projection.Incarnation(life))
	sendLives(d, "1.1:a", "2.3:C", "1.4:d")
	d.Want("repairs", `{"from":1,"to":2,"incarnation":2}`, `{"from":2,"to":3,"incarnation":1}`)
	sendLives(d, "1.3:c", "1.7:g", "1.6:f", "2.2:B", "2.5:E")
	d.Want("repairs", `{"from":5,"to":6,"incarnation":1}`, `{"from":4,"to":4,"incarnation":2}`)
}

// TestLimitOfRecords: when as many records wait as may, the next one fails, or the gap is accepted.
// Requirement D3.
func TestLimitOfRecords(t *testing.T) {
	few := wide
	few.Records = 2
	d := newWaiting(t, few)
	send(d, "1:a", "3:c", "4:d", "5:e")
	d.WantDeadLetter("texts", topology.Validation, "versions are missing before the one of the record, and as many "+
		"records of its key wait for them as may")
	send(d, "4:x", "2:b", "5:e")
	if got := d.Rows("texts", 0)["k"][12:]; got != `["a","b","c","d","e"]` {
		t.Errorf("the row is %s", got)
	}
	noneWaits(t, d)

	few.Then = projection.AcceptLatest
	d = newWaiting(t, few)
	send(d, "1:a", "8:h", "4:d")
	d.Want("changes", `{"version":1,"value":["a"]}`)
	send(d, "5:e")
	d.Want("gaps", `{"expected":2,"actual":4,"value":"d"}`)
	d.Want("changes", `{"version":4,"value":["a","d"]}`, `{"version":5,"value":["a","d","e"]}`)
	send(d, "10:j", "7:g")
	d.Want("gaps", `{"expected":6,"actual":7,"value":"g"}`)
	d.Want("changes", `{"version":7,"value":["a","d","e","g"]}`, `{"version":8,"value":["a","d","e","g","h"]}`)
	send(d, "9:i")
	noneWaits(t, d)
}

// TestLimitOfStreamTime: a key whose row has not moved for so long gives up, at a time that the
// records say. Requirement D3.
func TestLimitOfStreamTime(t *testing.T) {
	d := newWaiting(t, limits(projection.FailFast))
	sendAt(d, 10, "1:a", "3:c")
	sendAt(d, 15, "5:e")
	d.Take("changes")
	tick(d, 17)
	d.Restart()
	tick(d, 17)
	d.Want("abandoned")
	tick(d, 18)
	message := "versions are missing before the one of the record"
	d.Want("abandoned", `{"reason":"stream-time","message":"`+message+`","expected":2,"actual":3,"value":"c"}`,
		`{"reason":"stream-time","message":"`+message+`","expected":2,"actual":5,"value":"e"}`)
	noneWaits(t, d)
	d.Take("repairs")
	sendAt(d, 19, "6:f") // asks again
	d.Want("repairs", `{"from":2,"to":5}`)
	sendAt(d, 20, "2:b", "3:c")
	d.Want("changes", `{"version":2,"value":["a","b"]}`, `{"version":3,"value":["a","b","c"]}`)
	// The row has moved, so the waiting time starts again.
	tick(d, 27)
	d.Want("abandoned")
	tick(d, 28)
	if n := len(d.Take("abandoned")); n != 1 {
		t.Errorf("%d records are abandoned", n)
	}

	d = newWaiting(t, limits(projection.AcceptLatest))
	sendAt(d, 10, "1:a", "3:c", "4:d", "6:f")
	d.Take("changes")
	tick(d, 18)
	if gaps, want := d.Take("gaps"), `{"expected":2,"actual":3,"value":"c"}`; len(gaps) != 1 ||
		string(gaps[0].Value) != want || gaps[0].Timestamp != 10_000 {
		t.Errorf("the gaps are %+v, want %s", gaps, want)
	}
	if got := d.Rows("texts", 0)["k"][12:]; got != `["a","c","d"]` {
		t.Errorf("the row is %s", got)
	}
	tick(d, 26)
	d.Want("gaps", `{"expected":5,"actual":6,"value":"f"}`)
	noneWaits(t, d)
}

// TestLimitOfWallClock: where no record comes, the clock gives up. Requirement D3.
func TestLimitOfWallClock(t *testing.T) {
	for _, then := range []projection.GapPolicy{projection.FailFast, projection.AcceptLatest} {
		t.Run(then.String(), func(t *testing.T) {
			d := newWaiting(t, projection.Limits{Records: 10, WallClock: 8 * time.Second, Then: then})
			advance := func(by time.Duration) {
				if err := d.Advance(by); err != nil {
					t.Fatal(err)
				}
			}
			send(d, "1:a", "3:c")
			d.Want("changes", `{"version":1,"value":["a"]}`)
			advance(8 * time.Second) // seen after one
			d.Want("changes")
			d.Want("abandoned")
			advance(time.Second)
			if then == projection.FailFast {
				d.Want("abandoned", `{"reason":"wall-clock","message":"versions are missing before the one of the record",`+
					`"expected":2,"actual":3,"value":"c"}`)
				d.Want("changes")
			} else {
				d.Want("gaps", `{"expected":2,"actual":3,"value":"c"}`)
				d.Want("changes", `{"version":3,"value":["a","c"]}`)
			}
			noneWaits(t, d)
			advance(time.Hour)
		})
	}
}

// TestReleasedRecord: what is released has its own position, timestamp, headers and null.
func TestReleasedRecord(t *testing.T) {
	var folded []string
	d := processortest.New(t, func(b *topology.Builder) {
		fold := func(_ []string, _ bool, r event) ([]string, error) {
			topic, _, offset := r.Source()
			folded = append(folded, fmt.Sprintf("%d %d %q %d %d", r.Timestamp, len(r.Headers), topic, offset, r.StreamTime()))
			return []string{}, nil
		}
		p := projection.Latest(topology.From(b, eventsTopic), "texts", version, fold, listCodec,
			projection.ParkGaps(textCodec, wide))
		p.Changes().Into(changesTopic)
		topology.MapValues(p.Abandoned(), "null", func(projection.Abandoned[text]) (string, error) {
			return "", nil
		})
	})
	d.Pipe("events", "k", `"a"`, topologytest.Header("version", "1"), second(1))
	d.Pipe("events", "k", `"c"`, topologytest.Header("version", "3"), topologytest.Header("x", "y"), second(5))
	d.PipeNull("events", "k", topologytest.Header("version", "4"), second(3))
	d.Pipe("events", "k", `"b"`, topologytest.Header("version", "2"), second(2))
	want := `["1000 1 \"events\" 0 1000" "2000 1 \"events\" 3 5000" "5000 2 \"events\" 1 5000"]`
	if got := fmt.Sprintf("%q", folded); got != want {
		t.Errorf("fold was given %s, want %s", got, want)
	}
	var got []string
	for _, r := range d.Take("changes") {
		text := fmt.Sprint(r.Timestamp)
		for _, h := range r.Headers {
			text += " " + h.Key + "=" + string(h.Value)
		}
		got = append(got, text)
	}
	if want := "[1000 version=1 2000 version=2 5000 version=3 x=y 3000 version=4]"; fmt.Sprint(got) != want {
		t.Errorf("the changes are %s, want %s", got, want)
	}
}

// TestFoldRefusesReleased: a released record that fold refuses is abandoned, and its copy takes its
// place.
func TestFoldRefusesReleased(t *testing.T) {
	d := newWaiting(t, wide)
	send(d, "2:fail", "3:c", "1:a")
	d.Want("changes", `{"version":1,"value":["a"]}`)
	d.Want("abandoned", `{"reason":"failed","message":"poison: asked to","expected":2,"actual":2,"value":"fail"}`)
	d.Want("dead")
	send(d, "2:b")
	d.Want("changes", `{"version":2,"value":["a","b"]}`, `{"version":3,"value":["a","b","c"]}`)
	noneWaits(t, d)
	d.WantCounts("texts.abandoned=1 texts.applied=3 texts.parked=2 texts.released=1 texts.repairs=1")
}

// TestFoldPanicsOnReleased: a panic is blamed on the released record, and other classes on the one
// at work.
func TestFoldPanicsOnReleased(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		fold := func(_ []string, _ bool, r event) ([]string, error) {
			switch r.Value.Or("") {
			case "panic":
				panic(r.Value.Or(""))
			case "config":
				return nil, topology.Fail(topology.Config, schemas.Reason("asked to"))
			}
			return []string{}, nil
		}
		p := projection.Latest(topology.From(b, eventsTopic), "texts", version, fold, listCodec,
			projection.ParkGaps(textCodec, wide))
		topology.MapValues(p.Abandoned(), "message",
			func(v projection.Abandoned[text]) (string, error) {
				return v.Message, nil
			}).
			Into(topology.Topic("messages", schemas.String(), schemas.String()))
	})
	send(d, "1:a", "3:panic", "2:b")
	d.Want("messages", "poison: panic with a value of type string")
	d.Want("dead")
	send(d, "4:config")
	err := d.PipeRaw("events", []byte("k"), []byte(`"c"`), topologytest.Header("version", "3"))
	if err == nil || !strings.Contains(err.Error(), "config: asked to") {
		t.Fatalf("Pipe returned %v", err)
	}
}

// TestRefusedBehindReleased: what has waited and is refused behind the projection is abandoned
// without a trace, and neither the record that has released it nor those that come after it are
// held up.
func TestRefusedBehindReleased(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		waiting(b, wide).Changes().Peek("fragile", func(r topology.Record[string, row]) error {
			if slices.Contains(r.Value.Value, "bad") {
				return schemas.Reason("asked to")
			}
			return nil
		})
	})
	send(d, "1:a", "3:bad", "4:d", "2:b")
	d.Want("dead")
	d.Want("changes", `{"version":1,"value":["a"]}`, `{"version":2,"value":["a","b"]}`)
	d.Want("abandoned", `{"reason":"failed","message":"node fragile: poison: asked to","expected":3,"actual":3,"value":"bad"}`)
	send(d, "3:bad") // as the record at work it dies as any other
	d.WantDeadLetter("fragile", topology.Poison, "asked to")
	send(d, "3:c")
	d.Want("changes", `{"version":3,"value":["a","b","c"]}`, `{"version":4,"value":["a","b","c","d"]}`)
	noneWaits(t, d)
	d.WantCounts("fragile.dead-letter-poison=1 texts.abandoned=1 texts.applied=4 texts.parked=2 texts.released=1 " +
		"texts.repairs=1")
}

// TestRefusedBehindLimit: the reaching of a limit does not stop the task for what is refused behind
// the projection.
func TestRefusedBehindLimit(t *testing.T) {
	for name, l := range map[string]projection.Limits{
		"records":     {Records: 1, StreamTime: 1000 * time.Hour, Then: projection.AcceptLatest},
		"stream time": limits(projection.AcceptLatest),
		"wall clock":  {Records: 10, WallClock: 8 * time.Second, Then: projection.AcceptLatest},
	} {
		t.Run(name, func(t *testing.T) {
			d := processortest.New(t, func(b *topology.Builder) {
				waiting(b, l).Changes().Peek("fragile", func(r topology.Record[string, row]) error {
					if slices.Contains(r.Value.Value, "bad") {
						panic("asked to")
					}
					return nil
				})
			})
			sendAt(d, 10, "1:a", "3:bad")
			if name == "records" {
				sendAt(d, 10, "5:e")
			}
			for range 20 {
				if err := d.Advance(time.Second); err != nil {
					t.Fatal(err)
				}
			}
			tick(d, 18)
			d.Want("dead")
			d.Want("abandoned", `{"reason":"failed","message":"node fragile: poison: panic with a value of type string",`+
				`"expected":2,"actual":3,"value":"bad"}`)
			noneWaits(t, d)
		})
	}
}

// TestRefusedPassed: a record that an incarnation has passed by is abandoned where Stale does not
// take it.
func TestRefusedPassed(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		p := waiting(b, wide, projection.Incarnation(life))
		p.Stale().Peek("fragile", func(topology.Record[string, projection.Skipped[text]]) error {
			return topology.Fail(topology.Validation, schemas.Reason("asked to"))
		})
	})
	sendLives(d, "1.1:a", "1.3:c", "2.1:A")
	d.Want("dead")
	d.Want("changes", `{"version":1,"incarnation":1,"value":["a"]}`, `{"version":1,"incarnation":2,"value":["A"]}`)
	d.Want("abandoned", `{"reason":"failed","message":"node fragile: validation: asked to","expected":3,"actual":3,`+
		`"incarnation":1,"value":"c"}`)
	noneWaits(t, d)
}

// TestPolicyBehindReleased: where the policy of the node that has failed has something tried again
// or stops, that is what happens, and nothing is abandoned.
func TestPolicyBehindReleased(t *testing.T) {
	attempts := 0
	d := processortest.New(t, func(b *topology.Builder) {
		waiting(b, wide).Changes().Peek("fragile", func(r topology.Record[string, row]) error {
			switch {
			case r.Value.Version == 3 && attempts < 2:
				attempts++
				return topology.Fail(topology.Transient, schemas.Reason("asked to"))
			case r.Value.Version == 5:
				return schemas.Reason("asked to")
			}
			return nil
		}, topology.OnError(topology.Poison, topology.Policy{Action: topology.Stop}))
	})
	send(d, "1:a", "3:c", "2:b")
	d.Want("changes", `{"version":1,"value":["a"]}`, `{"version":2,"value":["a","b"]}`, `{"version":3,"value":["a","b","c"]}`)
	send(d, "5:e")
	before := [...]map[string]string{d.Rows("texts", 0), d.Rows("texts-parked", 0), d.Rows("texts-queues", 0)}
	err := d.PipeRaw("events", []byte("k"), []byte(`"d"`), topologytest.Header("version", "4"))
	if err == nil || !strings.Contains(err.Error(), "node fragile: poison: asked to") {
		t.Fatalf("Pipe returned %v", err)
	}
	for i, store := range []string{"texts", "texts-parked", "texts-queues"} {
		if after := d.Rows(store, 0); !maps.Equal(after, before[i]) {
			t.Errorf("store %s has changed", store)
		}
	}
	if attempts != 2 {
		t.Errorf("there were %d attempts that failed", attempts)
	}
}

// TestTimeDecidesNothing: the same versions give the same row whatever the timestamps say.
// Requirement D4.
func TestTimeDecidesNothing(t *testing.T) {
	want := ""
	for _, seconds := range [][]int{{1, 2, 3}, {3, 2, 1}, {2, 2, 2}} {
		d := newWaiting(t, wide)
		sendAt(d, seconds[2], "3:c")
		sendAt(d, seconds[0], "1:a")
		sendAt(d, seconds[1], "2:b")
		got := d.Rows("texts", 0)["k"]
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("the row is %q, and was %q", got, want)
		}
	}
}

// TestGoldenWaiting pins what is stored of records that wait, for ever.
func TestGoldenWaiting(t *testing.T) {
	d := newWaiting(t, wide)
	d.Pipe("events", "a\x00b", `"x"`, topologytest.Header("version", "258"), second(1))
	version := hex.EncodeToString([]byte("version"))
	for store, want := range map[string]string{
		"texts-parked": "0200" + "00000000000003e8" + "00000001" + "00" + "00000000" + "0000000000000000" + "0006" +
			hex.EncodeToString([]byte("events")) + "00000007" + "00000003" + version + hex.EncodeToString([]byte("258")) +
			hex.EncodeToString([]byte(`"x"`)),
		"texts-queues": "01" + "0000000000000001" + "8000000000000000" + "8000000000000102" + "00000000000003e8" +
			"0000000000000000",
	} {
		for key, value := range d.Rows(store, 0) {
			if got := hex.EncodeToString([]byte(value)); got != want {
				t.Errorf("store %s has %s, want %s", store, got, want)
			}
			if store == "texts-parked" && key != "a\x00\xffb\x00\x01\x80\x00\x00\x00\x00\x00\x00\x00"+
				"\x80\x00\x00\x00\x00\x00\x01\x02" {
				t.Errorf("the key is %q", key)
			}
		}
	}
}

// olderBuild makes the record of the key k with version 2, which waits, one that an earlier build
// has kept in the mode of a repair.
func olderBuild(d *processortest.Driver) {
	for key := range d.Rows("texts-parked", 0) {
		header := func(key, value string) string {
			lengths := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(len(key))), uint32(len(value)))
			return string(lengths) + key + value
		}
		d.SetRow("texts-parked", key, "\x01\x00"+strings.Repeat("\x00", 11)+"\x02"+header("version", "2")+
			header(topology.HeaderMode, "REPAIR")+`"b"`)
	}
}

// TestWaitingOfAnEarlierBuild: a record that an earlier build has kept has the mode that its
// headers tell.
func TestWaitingOfAnEarlierBuild(t *testing.T) {
	var notes []string
	d := processortest.New(t, func(b *topology.Builder) { told(b, topology.From(b, eventsTopic), wide, &notes) })
	d.Pipe("events", "k", `"b"`, topologytest.Header("version", "2"))
	olderBuild(d)
	notes = nil
	send(d, "1:a")
	if got, want := strings.Join(notes, "; "), "applied 1 LIVE; changes 1 LIVE; applied 2 REPAIR; changes 2 REPAIR"; got != want {
		t.Errorf("it was told %q, want %q", got, want)
	}
	noneWaits(t, d)
}

// TestPositionOfAnEarlierBuild is requirement B3: a record that an earlier build has kept has no
// position, and is abandoned where an inbox behind the projection goes by that.
func TestPositionOfAnEarlierBuild(t *testing.T) {
	var sources []string
	for _, byPosition := range []bool{false, true} {
		d := processortest.New(t, func(b *topology.Builder) {
			changes := waiting(b, wide).Changes().Peek("sources", func(r topology.Record[string, row]) error {
				topic, partition, offset := r.Source()
				sources = append(sources, fmt.Sprintf("%d %s[%d]@%d", r.Value.Version, topic, partition, offset))
				return nil
			})
			if byPosition {
				inbox.Dedupe(changes, "inbox", inbox.IngestionID, inbox.Forever())
			}
		})
		send(d, "2:b")
		olderBuild(d)
		sources = nil
		send(d, "1:a")
		if got, want := strings.Join(sources, "; "), "1 events[0]@1; 2 [0]@0"; got != want {
			t.Errorf("the sources are %q, want %q", got, want)
		}
		var want []string
		if byPosition {
			want = []string{`{"reason":"failed","message":"node inbox: validation: the record was read from no topic, so there is no ` +
				`position that could be its id","expected":2,"actual":2,"value":"b"}`}
		}
		d.Want("abandoned", want...)
		d.Want("dead")
		noneWaits(t, d)
	}
}

// TestDecisions is requirement J1: each outcome is told with its row; what has waited keeps its own
// time and headers.
func TestDecisions(t *testing.T) {
	logTopic := topology.Topic("log", schemas.Bytes(), schemas.String())
	d := processortest.New(t, func(b *topology.Builder) {
		topology.MapValuesWithRecord(waiting(b, limits(projection.FailFast)).Decisions(), "log",
			func(r topology.Record[[]byte, decision.Decision]) (string, error) {
				v := r.Value
				of, _ := r.Header("version")
				if given := fmt.Sprint(v.Given.Or(-1)); given != string(of) {
					return "", fmt.Errorf("the record of version %s is told as one of %s", of, given)
				}
				return fmt.Sprintf("%s: %s %s %s %v %v %s %d %t", of, v.Node, v.Outcome, v.Store, v.Before, v.After,
					v.Reason, r.Timestamp/1000, v.Deferred), nil
			}).Into(logTopic)
	})
	const missing = "versions are missing before the one of the record"
	sendAt(d, 1, "3:c", "3:c")
	sendAt(d, 2, "1:a", "1:a")
	sendAt(d, 3, "2:b", "5:e")
	sendAt(d, 11, "1:a")
	d.Want("log", "3: texts parked texts {0 false} {0 false} "+missing+" 1 false",
		"3: texts duplicates texts {0 false} {0 false} a record with its version waits 1 false",
		"1: texts applied texts {0 false} {1 true}  2 false", "1: texts duplicates texts {1 true} {1 true}  2 false",
		"2: texts applied texts {1 true} {2 true}  3 false", "3: texts applied texts {2 true} {3 true}  1 true",
		"5: texts parked texts {3 true} {3 true} "+missing+" 3 false", "1: texts stale texts {3 true} {3 true}  11 false",
		"5: texts abandoned texts {3 true} {3 true} stream-time: "+missing+" 3 true")
}

// TestClauses is requirement K3: the contract says what becomes of a gap.
func TestClauses(t *testing.T) {
	for want, declare := range map[string]func(b *topology.Builder){
		"one before which versions are missing fails": func(b *topology.Builder) { routed(b, false) },
		"one before which versions are missing is applied without them": func(b *topology.Builder) {
			routed(b, false, projection.OnGap(projection.AcceptLatest))
		},
		"any higher one is applied": func(b *topology.Builder) { routed(b, false, projection.Sparse()) },
		"one before which versions are missing waits for them, with at most 100 of its key, 8s of stream time, and they " +
			"are asked for; after that it is abandoned": func(b *topology.Builder) { waiting(b, limits(projection.FailFast)) },
	} {
		b := topology.NewBuilder("app", topology.DeadLetters("dead"))
		declare(b)
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, c := range top.Clauses() {
			found = found || c.Aspect == topology.OutOfOrder && strings.HasSuffix(c.Text, "; "+want)
		}
		if !found || len(top.Clauses()) != 6 {
			t.Errorf("the clauses are %+v, want %q", top.Clauses(), want)
		}
	}
}
