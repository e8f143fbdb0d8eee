//go:build onceward_failpoints

package txn_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/txn"
)

// TestFailpointsOfOneApplication: a failpoint of one application aborts its round, and none of
// another application in the process.
func TestFailpointsOfOneApplication(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out")
		var apps []*txn.App
		for i, fault := range []error{nil, txn.ErrRefused} {
			var once sync.Once
			cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1, Application: fmt.Sprint("copy-", i)})
			app, _ := start(t, copyTopology(t, "out"), cfg.WithFailpoints(func(_ context.Context, point string) (err error) {
				if point == "offsets-before" {
					once.Do(func() { err = fault })
				}
				return err
			}))
			apps = append(apps, app)
		}
		b.produce(t, &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("v")})
		b.read(t, "out", 2)
		for i, aborts := range []int64{0, 1} {
			waitFor(t, "the record to be committed", func() bool { return apps[i].Status().Totals.Records == 1 })
			if got := apps[i].Status().Totals.Aborts; got != aborts {
				t.Errorf("application %d has aborted %d rounds, want %d", i, got, aborts)
			}
		}
	})
}

// TestTableThatIsGoneBroken is the negative control of TestTableThatIsGone: an application that
// restores a table from its topic whatever compaction has taken out shows values that are wrong,
// and the check of the changes finds them.
func TestTableThatIsGoneBroken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPrices(t, compacted)
		p.compactBehindCommit()
		p.loseState()
		p.cfg = p.cfg.WithFailpoints(nil, "age")
		p.process(restorable(t))
		if err := p.chained(); err == nil {
			t.Error("a table was restored that has lost values, and no change shows it")
		}
	})
}

// TestUnknownMechanism: an application is not run in which nothing is broken although a test wants
// it.
func TestUnknownMechanism(t *testing.T) {
	cfg := txn.Config{Brokers: []string{"localhost:9092"}, StateDir: t.TempDir()}
	_, err := txn.New(countTopology(t), cfg.WithFailpoints(nil, "everything"))
	if _, wrong := errors.AsType[*txn.ConfigError](err); !wrong {
		t.Errorf("New returned %v", err)
	}
	if _, err := txn.New(countTopology(t), cfg.WithFailpoints(nil, "age")); err != nil {
		t.Error(err)
	}
}
