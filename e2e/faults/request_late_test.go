package faults

import (
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/proxy"
)

// TestLateCommit: an offset commit or a commit that reaches the broker when its transaction is over
// is refused, and changes nothing: neither while the same producer is many transactions further,
// nor when the tasks have moved to another instance.
func TestLateCommit(t *testing.T) {
	t.Parallel()
	eachVirtual(t, lateRequests(), lateRequest.name, late)
}

// TestLateCommitOnKafka is TestLateCommit where a real coordinator refuses.
func TestLateCommitOnKafka(t *testing.T) {
	t.Parallel()
	eachOnKafka(t, requestsOnKafka, lateRequests(), lateRequest.name, late)
}

type lateRequest struct {
	key   int16
	moved bool // the tasks, by the time that it arrives
}

func lateRequests() (all []lateRequest) {
	for _, key := range []int16{proxy.KeyTxnOffsetCommit, proxy.KeyEndTxn} {
		all = append(all, lateRequest{key, true}, lateRequest{key, false})
	}
	return all
}

func (r lateRequest) name() string {
	if r.moved {
		return kmsg.NameForKey(r.key) + "/the tasks have moved"
	}
	return kmsg.NameForKey(r.key) + "/the producer goes on"
}

func late(t *testing.T, c *cluster.Cluster, r lateRequest) {
	s := newRequestScene(t, c)
	i := s.start(s.t.TempDir())
	stop := s.feeding()
	defer stop()
	s.must(s.until(s.ctx, 50, i))
	m := requestCell{kind{r.key, running}, fault{direction: proxy.ToBroker}}.match(s, 1)
	if r.key == proxy.KeyEndTxn {
		// The client sends a commit again that is not answered, and rightly so: the transaction is
		// the same one. All of its commits have to be late.
		m = ofOneTransaction(m)
	}
	held := s.link.Add(m, proxy.Hold())
	reply := s.link.Add(proxy.Match{Key: r.key, Direction: proxy.ToClient, Where: func(f *proxy.Frame) bool {
		return f.Answers() == held.First()
	}}, proxy.Pass())
	s.must(held.AwaitMatched(s.ctx, 1))
	if r.moved {
		next := s.start(s.t.TempDir())
		i.End()
		i = next
	}
	s.must(s.until(s.ctx, s.total()+50, i))
	if held.Counts().Delivered != 0 {
		s.t.Fatal("the request is not late: it has reached the broker")
	}
	held.Lift()
	s.must(reply.AwaitMatched(s.ctx, 1))
	err := refusal(s.t, reply.First())
	if err == nil {
		s.t.Error("the late request was accepted")
	}
	s.t.Logf("the late request was answered with %v", err)
	s.must(s.until(s.ctx, s.total()+50, i))
	stop()
	s.check(i)
}

// ofOneTransaction narrows a match of EndTxn to the first transaction that it meets, however often
// its commit is sent.
func ofOneTransaction(m proxy.Match) proxy.Match {
	type identity struct {
		producer int64
		epoch    int16
	}
	var mu sync.Mutex
	var first *identity
	where := m.Where
	m.Limit = 0
	m.Where = func(f *proxy.Frame) bool {
		if !where(f) {
			return false
		}
		req, err := f.Request()
		end, ok := req.(*kmsg.EndTxnRequest)
		if err != nil || !ok {
			return false
		}
		this := identity{end.ProducerID, end.ProducerEpoch}
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			first = &this
		}
		return *first == this
	}
	return m
}

// refusal returns the error that a reply carries.
func refusal(t *testing.T, f *proxy.Frame) error {
	t.Helper()
	resp, err := f.Response()
	if err != nil {
		t.Fatal(err)
	}
	switch resp := resp.(type) {
	case *kmsg.EndTxnResponse:
		return kerr.ErrorForCode(resp.ErrorCode)
	case *kmsg.TxnOffsetCommitResponse:
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				if p.ErrorCode != 0 {
					return kerr.ErrorForCode(p.ErrorCode)
				}
			}
		}
	default:
		t.Fatalf("%s: nothing is known about its errors", f)
	}
	return nil
}
