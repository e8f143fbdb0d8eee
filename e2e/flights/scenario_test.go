//go:build unix

package flights

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

const (
	// stepTimeout bounds each wait of the scenario, which only decides how long a failure takes to
	// show.
	stepTimeout  = 2 * time.Minute
	pollInterval = 2 * time.Millisecond
)

// scenario is one run of the pipeline on one cluster.
type scenario struct {
	t           *testing.T
	cluster     *cluster.Cluster
	application string
	prefix      string
	pipeline    pipeline
	topology    *topology.Topology // the pipeline's, under the application id of this run
	settings    settings
	log         *instance.Log     // of all lives
	process     *instance.Process // the life that there is, nil before the first
	inputs      []input
	ends        []int64 // of the source partitions

	committed []int64 // the highest position seen, by source partition
	started   time.Time
	kills     kills
	// aborts are those that the pipeline counted in its earlier lives, lifeAborts those of this
	// one.
	aborts, lifeAborts int64
}

type kills struct {
	tried, counted, restoring int
	// open counts the transactions that were open when the process was gone. All of them have to be
	// aborted.
	open int
}

func newScenario(t *testing.T, c *cluster.Cluster, inputs []input) *scenario {
	t.Helper()
	application := c.Name(t, "")
	// Not the test's directory, whose path can be too long for the control socket.
	dir, err := os.MkdirTemp("", "flights")
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPipeline(application + ".")
	if err != nil {
		t.Fatal(err)
	}
	top, err := p.Topology.WithApplication(application)
	if err != nil {
		t.Fatal(err)
	}
	s := &scenario{
		t: t, cluster: c, application: application, prefix: application + ".", pipeline: p, topology: top,
		inputs: inputs, ends: make([]int64, partitions), committed: make([]int64, partitions),
		settings: settings{
			Brokers: c.Brokers(), Prefix: application + ".", Application: application, StateDir: filepath.Join(dir, "state"),
		},
		log: instance.NewLog(t, "the pipeline"),
	}
	for _, in := range inputs {
		s.ends[in.Partition] = in.Offset + 1
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the pipeline's state stays in %s", dir)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return s
}

// createTopics creates the user's topics. Their records are years old, so retention must not look
// at the time.
func (s *scenario) createTopics(ctx context.Context) error {
	for _, topic := range s.topology.Topics() {
		configs := map[string]*string{"retention.ms": kadm.StringPtr("-1")}
		if err := s.cluster.CreateTopic(ctx, topic, partitions, configs); err != nil {
			return err
		}
	}
	return nil
}

// produce writes the inputs. Keys are partitioned by the client, so that partitions other than
// those of the recomputation show here; every record has to land where the recomputation has it.
func (s *scenario) produce(ctx context.Context) error {
	client := s.cluster.Client(s.t, kgo.RecordPartitioner(partitioner{kgo.StickyKeyPartitioner(nil)}))
	var misplaced, failed atomic.Pointer[string]
	for i := range s.inputs {
		in := &s.inputs[i]
		record := &kgo.Record{
			Topic: s.prefix + sourceTopic, Partition: in.Partition, Key: in.Key, Value: in.Value,
			Timestamp: time.UnixMilli(in.Timestamp),
			Headers:   []kgo.RecordHeader{{Key: lineHeader, Value: []byte(strconv.Itoa(in.Row.Line))}},
		}
		client.Produce(ctx, record, func(r *kgo.Record, err error) {
			switch {
			case err != nil:
				text := err.Error()
				failed.Store(&text)
			case r.Partition != in.Partition || r.Offset != in.Offset:
				text := fmt.Sprintf("line %d is at %d-%d and was expected at %d-%d",
					in.Row.Line, r.Partition, r.Offset, in.Partition, in.Offset)
				misplaced.Store(&text)
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		return fmt.Errorf("produce the input: %w", err)
	}
	for _, problem := range []*atomic.Pointer[string]{&failed, &misplaced} {
		if text := problem.Load(); text != nil {
			return fmt.Errorf("produce the input: %s", *text)
		}
	}
	return nil
}

// partitioner leaves keys to the client's own partitioner and takes the record's partition for a
// null key.
type partitioner struct{ keyed kgo.Partitioner }

func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return topicPartitioner{p.keyed.ForTopic(topic)}
}

type topicPartitioner struct{ keyed kgo.TopicPartitioner }

func (topicPartitioner) RequiresConsistency(*kgo.Record) bool { return true }

func (p topicPartitioner) Partition(r *kgo.Record, n int) int {
	if r.Key == nil {
		return int(r.Partition)
	}
	return p.keyed.Partition(r, n)
}

// progress returns the share of the input that is committed.
func (s *scenario) progress() float64 {
	done, all := int64(0), int64(0)
	for p := range s.ends {
		done += s.committed[p]
		all += s.ends[p]
	}
	return float64(done) / float64(all)
}

// note takes the committed positions and the counters from a status.
func (s *scenario) note(status txn.Status) {
	for _, task := range status.Tasks {
		for _, in := range task.Inputs {
			if in.Topic == s.prefix+sourceTopic {
				s.committed[in.Partition] = max(s.committed[in.Partition], in.Offset)
			}
		}
	}
	s.lifeAborts = status.Totals.Aborts
}

// watch asks the pipeline for its status until done likes one.
func (s *scenario) watch(ctx context.Context, waitFor string, done func(txn.Status) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		status, unanswered := txn.InstanceStatus(ctx, s.settings.StateDir)
		if unanswered == nil {
			s.note(status)
			if ok, err := done(status); ok || err != nil {
				return err
			}
		}
		if err := s.process.Alive(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s at %.1f %%: %w; the last status is %+v",
				waitFor, 100*s.progress(), errors.Join(ctx.Err(), unanswered), status)
		case <-tick.C:
		}
	}
}

// start begins another life of the pipeline.
func (s *scenario) start() {
	s.t.Helper()
	s.aborts += s.lifeAborts
	s.lifeAborts = 0
	s.process = instance.Launch(s.t, s.settings.command(s.t), s.log)
}

// finish waits until everything is processed, and stops the pipeline in order.
func (s *scenario) finish(ctx context.Context) error {
	err := s.watch(ctx, "the end of the input", func(txn.Status) (bool, error) {
		return slices.Equal(s.committed, s.ends), nil
	})
	if err != nil {
		return err
	}
	// Nothing more comes to the repartition topic: a task is through when it has the last record
	// there.
	topic := s.repartitionTopic()
	records, err := s.cluster.ReadAll(ctx, topic)
	if err != nil {
		return err
	}
	last := map[int32]int64{}
	for p, of := range records {
		if len(of) > 0 {
			last[int32(p)] = of[len(of)-1].Offset
		}
	}
	err = s.watch(ctx, "the end of "+byCarrierNode, func(status txn.Status) (bool, error) {
		behind := maps.Clone(last)
		for _, task := range status.Tasks {
			for _, in := range task.Inputs {
				if in.Topic == topic && in.Offset > behind[in.Partition] {
					delete(behind, in.Partition)
				}
			}
		}
		return len(behind) == 0, nil
	})
	if err != nil {
		return err
	}
	s.process.Stop()
	return nil
}

func (s *scenario) repartitionTopic() string {
	return s.application + "-" + byCarrierNode + "-repartition"
}

func (s *scenario) stateDirectory() (*state.Directory, error) {
	return state.OpenDirectory(s.settings.StateDir, state.DirectoryOptions{Application: s.application})
}
