package txn_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// streamJoin is an outer join of two topics within ten seconds.
func streamJoin(t *testing.T) *topology.Topology {
	t.Helper()
	text := schemas.String()
	topic := func(name string) topology.TopicOf[string, string] { return topology.Topic(name, text, text) }
	b := topology.NewBuilder("joined")
	topology.OuterJoinStreams(topology.From(b, topic("left")), topology.From(b, topic("right")), "near", topology.Within(10*time.Second),
		text, text, text, func(_ string, l, r topology.Option[string]) (string, error) { return l.Or("?") + "+" + r.Or("?"), nil }).
		Into(topic("result"))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// TestStreamJoinIsRestored: both streams of a join, with several records of one key and time, and
// what waits come back from the changelogs, whole or compacted, and from the state directory. No
// result is missing, and none is there twice.
func TestStreamJoinIsRestored(t *testing.T) {
	for name, test := range map[string]struct{ sameDirectory, compacted bool }{
		"same directory": {sameDirectory: true}, "whole changelog": {}, "compacted changelog": {compacted: true},
	} {
		bubble(t, name, func(t *testing.T) {
			b := newBroker(t, 1, "left", "right", "result")
			began := time.Now().Add(-time.Hour).Truncate(time.Second)
			send := func(topic string, after time.Duration, key, value string) {
				b.produce(t, &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value), Timestamp: began.Add(after)})
			}
			dir := t.TempDir()
			_, stop := start(t, streamJoin(t), b.config(txn.Config{StateDir: dir, Workers: 1}))
			send("left", 0, "a", "x")
			send("left", 0, "a", "y")
			send("right", 0, "b", "z")
			send("left", time.Second, "c", "u")
			send("right", 2*time.Second, "c", "v")
			b.read(t, "result", 1)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if test.compacted {
				b.Compact()
			}
			if !test.sameDirectory {
				dir = t.TempDir()
			}
			_, stop = start(t, streamJoin(t), b.config(txn.Config{StateDir: dir, Workers: 1}))
			send("left", 3*time.Second, "a", "w")
			send("right", 5*time.Second, "a", "p")
			b.read(t, "result", 4)
			send("right", time.Minute, "d", "q")
			var got []string
			for _, r := range b.read(t, "result", 5) {
				got = append(got, fmt.Sprintf("%s=%s@%s", r.Key, r.Value, r.Timestamp.Sub(began)))
			}
			slices.Sort(got)
			const want = "a=w+p@5s a=x+p@5s a=y+p@5s b=?+z@0s c=u+v@2s"
			if strings.Join(got, " ") != want {
				t.Errorf("the results are %q, want %s", got, want)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
