package txn_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/internal/task"
)

// shop is a topology that counts records per key, and what is wrong with the world around it.
type shop struct {
	t *testing.T
	*testBroker
	policy topology.Policy
	// broken are the keys that fail.
	broken sync.Map
	tries  atomic.Int64
	// attempts are those that the code saw of what failed.
	attempts sync.Map
}

func newShop(t *testing.T, policy topology.Policy) *shop {
	t.Helper()
	return &shop{t: t, testBroker: newBroker(t, 2, "in", "out", "dead"), policy: policy}
}

func (s *shop) topology(opts ...topology.SourceOption) *topology.Topology {
	s.t.Helper()
	b := topology.NewBuilder("counting", topology.DeadLetters("dead"))
	in := topology.From(b, topology.Topic("in", schemas.String(), schemas.String()), opts...)
	counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
	counted := topology.Process(in, "count", counts, countRecord)
	node := topology.Stateful(counted, "judge").OnError(topology.Transient, s.policy)
	out := topology.Outlet[string, int64](node, "out")
	node.Process(func(set *topology.Setup) (topology.Handler[string, int64], error) {
		emit := out.In(set)
		return func(c *topology.Context, r topology.Record[string, int64]) error {
			if _, broken := s.broken.Load(r.Key); broken {
				s.tries.Add(1)
				s.attempts.Store(c.Attempt(), true)
				return topology.Fail(topology.Transient, schemas.Reason("not now"))
			}
			return emit(c, r)
		}, nil
	})
	out.Stream().Into(topology.Topic("out", schemas.String(), schemas.Int64()))
	top, err := b.Build()
	if err != nil {
		s.t.Fatal(err)
	}
	return top
}

func (s *shop) config(dir string) txn.Config {
	return s.testBroker.config(txn.Config{StateDir: dir, Workers: 1, CommitIntervalMax: 10 * time.Millisecond})
}

// send writes n records of a key, all into partition 0.
func (s *shop) send(key string, n int) {
	s.t.Helper()
	var records []*kgo.Record
	for i := range n {
		records = append(records, &kgo.Record{Topic: "in", Key: []byte(key), Value: fmt.Append(nil, i)})
	}
	s.produce(s.t, records...)
}

// retried returns how many attempts the commit of partition 0 counts.
func (s *shop) retried() int {
	s.t.Helper()
	for _, o := range s.offsetsOf(s.t, "in").Sorted() {
		if b, err := task.ParseCommitMetadata(o.Metadata); o.Partition == 0 && err == nil {
			return b.Retry.Attempts
		}
	}
	return 0
}

// TestAttemptsSurviveRestart: how often a record was tried in place is kept by the commit:
// restarts do not make it live for ever. Requirement G1.
func TestAttemptsSurviveRestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShop(t, topology.Policy{
			Action: topology.Retry, Attempts: 4, Backoff: time.Hour, BackoffMax: time.Hour, Then: topology.DeadLetter,
		})
		s.broken.Store("bad", true)
		s.send("good", 10)
		s.send("bad", 1)
		s.send("good", 10)
		dir := t.TempDir()
		for life := 1; life <= 3; life++ {
			_, stop := start(t, s.topology(), s.config(dir))
			waitFor(t, "the next try", func() bool { return s.tries.Load() == int64(life) })
			waitFor(t, "the commit that counts it", func() bool { return s.retried() == life })
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if life == 2 {
				dir = t.TempDir() // another instance counts on as well
			}
		}
		_, stop := start(t, s.topology(), s.config(dir))
		letter := s.read(t, "dead", 1)[0]
		var headers []topology.Header
		for _, h := range letter.Headers {
			headers = append(headers, topology.Header{Key: h.Key, Value: h.Value})
		}
		info, err := graph.ParseDeadLetter(headers)
		if err != nil || info.Attempts != 4 || !info.FirstFailure.Before(info.LastFailure) {
			t.Errorf("the letter says %+v, %v", info, err)
		}
		check(t, s.read(t, "out", 20), 20)
		var tried []int
		s.attempts.Range(func(n, _ any) bool {
			tried = append(tried, n.(int))
			return true
		})
		slices.Sort(tried)
		if !slices.Equal(tried, []int{1, 2, 3, 4}) || s.tries.Load() != 4 {
			t.Errorf("attempts %v in %d tries", tried, s.tries.Load())
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}
