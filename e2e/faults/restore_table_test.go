//go:build unix

package faults

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// tableScene is an application with a table that is restored from its topic, which Kafka compacts
// as soon as it may.
type tableScene struct {
	*cluster.Cluster
	t        *testing.T
	cfg      txn.Config
	topic    topology.TopicOf[string, int]
	store    topology.Store[state.Timestamped[string, int]]
	topology *topology.Topology
	producer *kgo.Client
	n        int
	want     map[string]int
}

func newTableScene(t *testing.T, c *cluster.Cluster) *tableScene {
	t.Helper()
	s := &tableScene{Cluster: c, t: t, producer: c.Client(t), want: map[string]int{}}
	s.topic = topology.Topic(c.Name(t, "prices"), schemas.String(), schemas.JSON[int]())
	s.store = topology.TimestampedStore("latest", schemas.String(), schemas.JSON[int]())
	configs := map[string]*string{}
	for name, value := range map[string]string{
		// Every record has a segment of its own, as their times are seconds apart.
		"cleanup.policy": "compact", "min.compaction.lag.ms": "3600000", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100",
	} {
		configs[name] = &value
	}
	if err := c.CreateTopic(t.Context(), s.topic.Name(), 1, configs); err != nil {
		t.Fatal(err)
	}
	b := topology.NewBuilder(c.Name(t, "app"))
	topology.TableFrom(b, s.topic, s.store, topology.RestoreFromTopic())
	var err error
	if s.topology, err = b.Build(); err != nil {
		t.Fatal(err)
	}
	s.cfg = txn.Config{Brokers: c.Brokers(), StateDir: filepath.Join(t.TempDir(), "state"), Workers: 1}
	s.cfg.Logger = slog.New(slog.NewTextHandler(instance.NewLog(t, "the application"), nil))
	return s
}

// feed writes values of ten keys, some of them deletions, the first of them of that age and each a
// second younger than the one before.
func (s *tableScene) feed(n int, age time.Duration) {
	s.t.Helper()
	at := time.Now().Add(-age)
	for i := range n {
		s.n++
		key := fmt.Sprintf("k%d", s.n*7%10)
		r := &kgo.Record{Topic: s.topic.Name(), Key: []byte(key), Value: fmt.Append(nil, s.n), Timestamp: at.Add(time.Duration(i) * time.Second)}
		if s.want[key] = s.n; s.n%9 == 4 {
			r.Value = nil
			delete(s.want, key)
		}
		if err := s.producer.ProduceSync(s.t.Context(), r).FirstErr(); err != nil {
			s.t.Fatal(err)
		}
	}
}

// start begins a life of the application.
func (s *tableScene) start() *instance.App {
	s.t.Helper()
	return instance.Start(s.t, s.topology, s.cfg)
}

// table returns the table of a running application once it is at the end of the topic.
func (s *tableScene) table(app *txn.App) (table map[string]int, ok bool) {
	view, err := txn.Read(app, s.store, 0)
	if err != nil {
		return nil, false
	}
	defer func() {
		if err := view.Close(); err != nil {
			s.t.Error(err)
		}
	}()
	ends, err := s.EndOffsets(s.t.Context(), s.topic.Name())
	if err != nil {
		s.t.Fatal(err)
	}
	if in, _ := view.Positions().Input(s.topic.Name(), 0); in.Offset != ends[0] {
		return nil, false
	}
	table = map[string]int{}
	for e, err := range view.Store().All() {
		if err != nil {
			s.t.Fatal(err)
		}
		table[e.Key] = e.Value
	}
	return table, true
}

// lives processes everything and compares the table.
func (s *tableScene) lives() {
	s.t.Helper()
	app := s.start()
	app.Await("the end of the topic", func() bool {
		table, ok := s.table(app.App)
		if ok && !maps.Equal(table, s.want) {
			s.t.Errorf("the table is %v and should be %v", table, s.want)
		}
		return ok
	})
	app.End()
}

// compactionPatience bounds the wait for a real broker's compaction, which looks for work in
// intervals and shares the machine.
const compactionPatience = 3 * time.Minute

// compacted waits until the topic has at most so many records below an offset.
func (s *tableScene) compacted(below int64, atMost int) {
	s.t.Helper()
	await(s.t, compactionPatience, "the compaction", func() error {
		left := 0
		for _, r := range s.Records(s.t, s.topic.Name()) {
			if r.Offset < below {
				left++
			}
		}
		if left > atMost {
			return fmt.Errorf("%d records are left below offset %d, and not %d", left, below, atMost)
		}
		return nil
	})
}

func (s *tableScene) end() int64 {
	s.t.Helper()
	ends, err := s.EndOffsets(s.t.Context(), s.topic.Name())
	if err != nil {
		s.t.Fatal(err)
	}
	return ends[0]
}

func (s *tableScene) lose() {
	s.t.Helper()
	if err := os.RemoveAll(s.cfg.StateDir); err != nil {
		s.t.Fatal(err)
	}
}

// asOf returns the table that the topic holds below an offset as it is now.
func (s *tableScene) asOf(offset int64) map[string]int {
	s.t.Helper()
	read := s.topology.Subtopologies()[0].Stores[0].FromSource.Reader()
	bytes := map[string]state.Write{}
	for _, r := range s.Records(s.t, s.topic.Name()) {
		w, ok, err := read(r.Key, r.Value, r.Timestamp.UnixMilli())
		if err != nil {
			s.t.Fatal(err)
		}
		if ok && r.Offset < offset {
			bytes[string(w.Key)] = w
		}
	}
	table := map[string]int{}
	for key, w := range bytes {
		if w.Delete {
			continue
		}
		_, v, err := s.topic.Decode([]byte(key), w.Value[8:]) // behind the time
		if err != nil {
			s.t.Fatal(err)
		}
		table[key] = v
	}
	return table
}

// TestTableOfCompactedTopic: Kafka compacts what is old, and nothing that is younger than the lag,
// so that an empty disk is filled with the table of the commit. Where the application was behind
// for longer the topic has lost what the table had, and the task stops.
func TestTableOfCompactedTopic(t *testing.T) {
	t.Parallel()
	c := cluster.Kafka(t) // the embedded broker does not know the lag
	t.Run("the lag is kept", func(t *testing.T) {
		s := newTableScene(t, c)
		s.feed(100, 3*time.Hour)
		s.feed(20, time.Minute)
		s.lives()
		committed, was := s.end(), maps.Clone(s.want)
		s.feed(20, 30*time.Second) // every key, behind the commit
		s.compacted(100, 20)
		if left := s.asOf(committed); !maps.Equal(left, was) {
			t.Fatalf("the topic holds %v below %d, and the table was %v", left, committed, was)
		}
		s.lose()
		s.lives()
	})
	t.Run("it was behind for longer", func(t *testing.T) {
		s := newTableScene(t, c)
		s.feed(100, 3*time.Hour)
		s.lives()
		committed, was := s.end(), maps.Clone(s.want)
		s.feed(100, 2*time.Hour)
		s.compacted(committed, 0)
		if left := s.asOf(committed); maps.Equal(left, was) {
			t.Fatal("the topic has lost nothing, so this test shows nothing")
		}
		s.lives() // with its directory nothing is missing
		s.lose()
		s.lives() // and at the end of the topic neither
		s.feed(50, 2*time.Hour)
		s.lose()
		err := s.start().Wait()
		if !errors.Is(err, txn.ErrIntegrity) || !strings.Contains(err.Error(), "what follow") {
			t.Errorf("Run returned %v", err)
		}
	})
}
