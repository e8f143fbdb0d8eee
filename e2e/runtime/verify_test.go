package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/txn/admin"
)

// TestVerify: the state of an instance is what its changelogs say, while it runs and commits, and
// after its end; rounds that were aborted and markers make no difference. It is on real time
// because a running instance gives its state through its control socket.
func TestVerify(t *testing.T) {
	t.Parallel()
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) {
		e := newAppScene(t, c)
		client, err := admin.Connect(t.Context(), c.Brokers()...)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		r := e.start(e.count())
		e.feed(1000, plain)
		e.until(r, 1000)
		feeding := e.keepFeeding()
		running := verifyAll(t, client, e.stateDir)
		fed := feeding.stop(t)
		e.until(r, 1000+fed)
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
		stopped := verifyAll(t, client, e.stateDir)
		if len(running) != len(stopped) || len(stopped) == 0 {
			t.Errorf("%d stores while it ran, %d after", len(running), len(stopped))
		}
		rows := int64(0)
		for _, v := range append(running, stopped...) {
			if v.Err != nil || v.Differences > 0 {
				t.Errorf("%s of %s: %+v", v.Store, v.Task, v)
			}
		}
		for _, v := range stopped {
			rows += v.Rows
			if !v.Equal() {
				t.Errorf("%s of %s after the end: %+v", v.Store, v.Task, v)
			}
		}
		if rows == 0 {
			t.Error("no row was compared: the test tested nothing")
		}
	})
}

// feeding writes records until it is stopped.
type feeding struct {
	end  chan struct{}
	done chan error
	fed  int64
}

func (e *appScene) keepFeeding() *feeding {
	f := &feeding{end: make(chan struct{}), done: make(chan error, 1)}
	go func() {
		for {
			select {
			case <-f.end:
				f.done <- nil
				return
			default:
			}
			r := &kgo.Record{Topic: e.in, Partition: int32(f.fed % partitions), Value: []byte("v"), Timestamp: time.Now()}
			r.Key = fmt.Appendf(nil, "f%d", f.fed%30)
			if err := e.producer.ProduceSync(context.Background(), r).FirstErr(); err != nil {
				f.done <- err
				return
			}
			f.fed++
		}
	}()
	return f
}

// stop returns how many records were written.
func (f *feeding) stop(t *testing.T) int64 {
	t.Helper()
	close(f.end)
	if err := <-f.done; err != nil {
		t.Fatal(err)
	}
	return f.fed
}

func verifyAll(t *testing.T, client *admin.Client, dir string) []admin.Verification {
	t.Helper()
	s, err := admin.OpenState(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.Verify(t.Context(), s, admin.VerifyOptions{})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return got
}
