package topology_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// interruptedTopologies write to the topic result. Each has a clock or a list of what is open,
// which are more than rows.
var interruptedTopologies = map[string]func(b *topology.Builder){
	"closed tumbling": func(b *topology.Builder) {
		named(joined(b, topology.Tumbling(10*ms)).Closed(), "name").Into(resultTopic)
	},
	"closed sliding": func(b *topology.Builder) {
		named(joined(b, topology.Sliding(10*ms).Grace(5*ms)).Closed(), "name").Into(resultTopic)
	},
	"closed sessions": func(b *topology.Builder) {
		named(sessions(b, topology.Sessions(10*ms)).Closed(), "name").Into(resultTopic)
	},
	"closed cogroup": func(b *topology.Builder) {
		w := topology.Sliding(10 * ms)
		add := func(sofar string, r word) (string, error) { return sofar + r.Value, nil }
		streams := []topology.Folded[string, string]{
			topology.Fold(topology.From(b, leftTopic), add), topology.Fold(topology.From(b, rightTopic), add),
		}
		named(topology.CogroupWindows(streams, w, windowStore(w), nil).Closed(), "name").Into(resultTopic)
	},
	"suppressed": func(b *topology.Builder) { suppressed(b, topology.UntilTimeLimit(10*ms)).Into(resultTopic) },
	"suppressed and bounded": func(b *topology.Builder) {
		suppressed(b, topology.UntilTimeLimit(20*ms).MaxRecords(2).MaxBytes(100)).Into(resultTopic)
	},
}

// TestInterruptionsChangeNothing: with crashes, aborts and restarts between the records, the
// committed output is that of a run without them.
func TestInterruptionsChangeNothing(t *testing.T) {
	for name, declare := range interruptedTopologies {
		t.Run(name, func(t *testing.T) {
			b := topology.NewBuilder("interrupted", topology.DeadLetters("dead"))
			declare(b)
			top := mustBuild(t, b)
			rapid.Check(t, func(rt *rapid.T) {
				var topics []string
				for _, topic := range top.Subtopologies()[0].Sources {
					topics = append(topics, topic.Topic)
				}
				events := history(false, topics...).Draw(rt, "history")
				want := interruptedRun(rt, top, events, func(*topologytest.Driver) error { return nil })
				got := interruptedRun(rt, top, events, func(d *topologytest.Driver) error {
					switch rapid.IntRange(0, 9).Draw(rt, "interruption") {
					case 0, 1:
						return d.Crash()
					case 2, 3:
						return d.Abort()
					case 4:
						return d.Restart()
					case 5, 6:
						return d.Commit()
					}
					return nil
				})
				if !slices.Equal(got, want) {
					rt.Fatalf("with interruptions the output is\n%v\nwant\n%v", got, want)
				}
			})
		})
	}
}

// interruptedRun returns what a topology commits. interrupt is called after each record.
func interruptedRun(rt *rapid.T, top *topology.Topology, events []event, interrupt func(d *topologytest.Driver) error) []string {
	d, err := topologytest.New(top, topologytest.CommitByHand())
	if err != nil {
		rt.Fatal(err)
	}
	for _, e := range events {
		at := topologytest.At(time.UnixMilli(e.ms))
		if err := d.PipeRaw(e.topic, []byte(e.key), []byte(e.value), at); err != nil {
			rt.Fatal(err)
		}
		if err := interrupt(d); err != nil {
			rt.Fatal(err)
		}
	}
	if err := d.Commit(); err != nil {
		rt.Fatal(err)
	}
	records, err := topologytest.Output(d, topology.Topic("result", schemas.String(), schemas.String()))
	if err != nil {
		rt.Fatal(err)
	}
	var lines []string
	for _, r := range records {
		lines = append(lines, fmt.Sprintf("%s=%s@%d", r.Key, r.Value, r.Timestamp))
	}
	return lines
}
