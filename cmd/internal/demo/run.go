package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward/txn/admin"
)

// Options are the knobs of the drill.
type Options struct {
	// Events is how many events are generated; Seed makes others.
	Events int
	Seed   uint64
	// Kills is how often the pipeline is killed while it processes; one more kill falls into a
	// restore. 0 means no kill at all.
	Kills int
	// Dir keeps the broker's data and the pipeline's state; a temporary one, removed at the end, by
	// default.
	Dir string
	Out io.Writer
}

// ErrDiffers says that the pipeline's figures are not the recomputed ones.
var ErrDiffers = errors.New("the pipeline's figures DIFFER from the recomputation")

// application is the id of the drill's application.
const application = "payments"

// Topics of the drill.
const (
	eventsTopic     = "payment-events"
	accountsTopic   = "payment-accounts"
	balancesTopic   = "payment-balances"
	duplicatesTopic = "payment-duplicates"
	staleTopic      = "payment-stale"
	gapsTopic       = "payment-gaps"
	recapturedTopic = "payment-recaptured"
	overTopic       = "payment-overcaptured"
	deadTopic       = "payment-dead"
)

var outputTopics = []string{
	accountsTopic, balancesTopic, duplicatesTopic, staleTopic, gapsTopic, recapturedTopic, overTopic, deadTopic,
}

// Run runs the drill and returns ErrDiffers when one figure differs.
func Run(ctx context.Context, o Options) (err error) {
	started := time.Now()
	dir := o.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "onceward-demo-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(filepath.Join(dir, "broker")))
	if err != nil {
		return fmt.Errorf("starting the embedded broker: %w", err)
	}
	defer broker.Close()
	adm, err := admin.Connect(ctx, broker.ListenAddrs()...)
	if err != nil {
		return err
	}
	defer adm.Close()
	say(o.Out, "embedded broker on %s, data in %s", broker.ListenAddrs()[0], dir)
	if err := createTopics(ctx, adm); err != nil {
		return err
	}
	facts := generate(o.Events, o.Seed)
	in, err := newFeed(broker.ListenAddrs(), facts)
	if err != nil {
		return err
	}
	defer in.writer.Close()
	say(o.Out, "%d payment events over %d partitions", len(facts), partitions)
	d := &drill{
		o: o, adm: adm, feed: in, started: time.Now(),
		pipeline: &process{brokers: broker.ListenAddrs(), stateDir: filepath.Join(dir, "state"), log: filepath.Join(dir, "pipeline.log")},
	}
	if err := d.run(ctx); err != nil {
		return errors.Join(err, d.pipeline.kill(), d.pipeline.tail())
	}
	return d.report(ctx, facts, time.Since(started))
}

func createTopics(ctx context.Context, adm *admin.Client) error {
	for _, topic := range append([]string{eventsTopic}, outputTopics...) {
		if err := adm.CreateTopic(ctx, topic, partitions); err != nil {
			return err
		}
	}
	return nil
}

func say(w io.Writer, format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
