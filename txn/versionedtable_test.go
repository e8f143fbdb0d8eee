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

var priceVersions = topology.VersionedStore("prices", schemas.String(), schemas.String(), time.Hour)

// pricedOrders joins orders with the prices of their time, ten seconds after they have come.
func pricedOrders(t *testing.T) *topology.Topology {
	t.Helper()
	text := schemas.String()
	topic := func(name string) topology.TopicOf[string, string] { return topology.Topic(name, text, text) }
	b := topology.NewBuilder("priced")
	table := topology.TableFrom(b, topic("right"), priceVersions)
	topology.LeftJoinStreamTableWithGrace(topology.From(b, topic("left")), table, "join", 10*time.Second, text, text,
		func(_, l string, r topology.Option[string]) (string, error) { return l + "+" + r.Or("?"), nil }).Into(topic("result"))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// TestGraceIsRestored: the versions of a table and the records that wait come back from the
// changelogs, whole or compacted, and from the state directory. No result is missing, and none is
// there twice. The versions can be asked for.
func TestGraceIsRestored(t *testing.T) {
	for name, test := range map[string]struct{ sameDirectory, compacted bool }{
		"same directory": {sameDirectory: true}, "whole changelog": {}, "compacted changelog": {compacted: true},
	} {
		bubble(t, name, func(t *testing.T) {
			b := newBroker(t, 1, "left", "right", "result")
			began := time.Now().Add(-time.Hour / 2).Truncate(time.Second)
			send := func(topic string, after time.Duration, key, value string) {
				b.produce(t, &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value), Timestamp: began.Add(after)})
			}
			dir := t.TempDir()
			app, stop := start(t, pricedOrders(t), b.config(txn.Config{StateDir: dir, Workers: 1}))
			send("right", 0, "a", "p")
			send("right", 0, "b", "q")
			send("left", time.Second, "a", "x")
			send("left", time.Second, "a", "y")
			send("left", 2*time.Second, "b", "z")
			send("left", 12*time.Second, "c", "u")
			b.read(t, "result", 3)
			want := "p"
			if !test.compacted {
				send("right", 3*time.Second, "a", "r")
				send("left", 13*time.Second, "a", "v") // it waits, and shows that the one before was processed
				send("left", 14*time.Second, "d", "w")
				send("left", 24*time.Second, "e", "w")
				b.read(t, "result", 6)
				want = "p r"
			}
			versions := func(app *txn.App) string {
				view, err := txn.Read(app, priceVersions, 0)
				if err != nil {
					return ""
				}
				defer func() {
					if err := view.Close(); err != nil {
						t.Error(err)
					}
				}()
				var got []string
				for v, err := range view.Store().History("a", 0, began.Add(time.Hour).UnixMilli()) {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, v.Value)
				}
				asOf, _, _, err := view.Store().GetAsOf("a", began.Add(2*time.Second).UnixMilli())
				if err != nil {
					t.Fatal(err)
				}
				return strings.Join(got, " ") + ", and p was " + asOf
			}
			want += ", and p was p"
			waitFor(t, "the versions", func() bool { return versions(app) == want })
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if test.compacted {
				b.Compact()
			}
			if !test.sameDirectory {
				dir = t.TempDir()
			}
			app, stop = start(t, pricedOrders(t), b.config(txn.Config{StateDir: dir, Workers: 1}))
			send("right", 11*time.Second, "c", "s")
			send("left", time.Minute, "f", "w")
			n := 4
			if !test.compacted {
				n = 7
			}
			var got []string
			for _, r := range b.read(t, "result", n) {
				got = append(got, fmt.Sprintf("%s=%s@%s", r.Key, r.Value, r.Timestamp.Sub(began)))
			}
			slices.Sort(got)
			all := "a=x+p@1s a=y+p@1s b=z+q@2s c=u+s@12s"
			if !test.compacted {
				all = "a=v+r@13s a=x+p@1s a=y+p@1s b=z+q@2s c=u+?@12s d=w+?@14s e=w+?@24s"
			}
			if strings.Join(got, " ") != all {
				t.Errorf("the results are %q, want %s", got, all)
			}
			waitFor(t, "the versions after the restore", func() bool { return versions(app) == want })
			if err := stop(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
