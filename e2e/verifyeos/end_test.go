//go:build unix

package verifyeos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/onceward/onceward/e2e/clients/process"
)

func (s *scenario) createTopics(ctx context.Context, topics ...string) error {
	for _, topic := range topics {
		if err := s.cluster.CreateTopic(ctx, topic, partitions, nil); err != nil {
			return err
		}
	}
	return nil
}

// stopGenerator ends the generator and checks that the topic has what it says to have written.
func (s *scenario) stopGenerator(ctx context.Context) error {
	var err error
	if s.records, err = s.generator.stop(); err != nil {
		return err
	}
	s.generator = nil
	ends, err := s.cluster.EndOffsets(ctx, input)
	if err != nil {
		return err
	}
	if n := sum(ends); n != s.records {
		return fmt.Errorf("the generator has written %d records, and %d are in %s", s.records, n, input)
	}
	return nil
}

func sum(offsets []int64) (n int64) {
	for _, o := range offsets {
		n += o
	}
	return n
}

// drain waits until everything is processed and committed. The verifier looks at no input beyond the committed
// offsets: an application that left the end of it would pass.
func (s *scenario) drain(ctx context.Context) error {
	for _, topic := range s.variant.inputs {
		targets, err := s.committedEnds(ctx, topic)
		if err != nil {
			return err
		}
		if err := s.awaitCommits(ctx, map[string][]int64{topic: targets}); err != nil {
			return err
		}
	}
	return nil
}

// committedEnds returns the offsets behind the last committed record of each partition. They can be below the
// end offsets, which count transaction markers.
func (s *scenario) committedEnds(ctx context.Context, topic string) ([]int64, error) {
	records, err := s.cluster.ReadAll(ctx, topic)
	if err != nil {
		return nil, err
	}
	ends := make([]int64, len(records))
	for p, of := range records {
		if len(of) > 0 {
			ends[p] = of[len(of)-1].Offset + 1
		}
	}
	return ends, nil
}

// stop ends all instances in order.
func (s *scenario) stop(ctx context.Context) error {
	for _, i := range s.instances {
		if err := s.terminate(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// count checks that every output topic has as many records as there were inputs: the verifier does not miss
// records at the end of echo and repartition.
func (s *scenario) count(ctx context.Context) error {
	for _, topic := range s.variant.outputs {
		records, err := s.cluster.ReadAll(ctx, topic)
		if err != nil {
			return err
		}
		n := int64(0)
		for _, of := range records {
			n += int64(len(of))
		}
		if n != s.records {
			return fmt.Errorf("%s has %d records for %d inputs", topic, n, s.records)
		}
	}
	return nil
}

func (s *scenario) terminate(ctx context.Context, i *process.Instance) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	if err := i.Check(); err != nil {
		return err
	}
	if err := i.Terminate(ctx); err != nil {
		return err
	}
	open, err := s.openTransactions(ctx, i)
	if err != nil {
		return err
	}
	if open > 0 {
		return fmt.Errorf("%s has stopped in order and left %d transactions open", i.Name(), open)
	}
	s.logf("%s has stopped in order", i.Name())
	return nil
}

// runBroken runs a single instance, broken in the named way, over the input of the run before, of which
// nothing else is left.
func (s *scenario) runBroken(t *testing.T, mistake string) error {
	ctx := t.Context()
	s.t, s.instances = t, nil
	if err := s.forgetRun(ctx, input); err != nil {
		return err
	}
	if err := s.createTopics(ctx, s.variant.outputs...); err != nil {
		return err
	}
	i := s.add("broken", "--broken", mistake)
	if err := i.Start(); err != nil {
		return err
	}
	if err := s.drain(ctx); err != nil {
		return err
	}
	return s.terminate(ctx, i)
}

// forgetRun leaves nothing of a run but the topic to keep: it deletes the group and all other topics but Kafka's
// own.
func (s *scenario) forgetRun(ctx context.Context, keep string) error {
	if _, err := s.cluster.Admin().DeleteGroup(ctx, application); err != nil {
		return fmt.Errorf("delete group %s: %w", application, err)
	}
	// The broker goes on knowing a deleted topic for a moment, and then forgets the new one of that name too.
	return s.await(ctx, func(ctx context.Context) (waiting string, err error) {
		topics, err := s.cluster.Admin().ListTopics(ctx)
		if err != nil {
			return "", err
		}
		for _, topic := range topics.Names() {
			if topic == keep || strings.HasPrefix(topic, "__") {
				continue
			}
			waiting = "topic " + topic + " is still there"
			_, err := s.cluster.Admin().DeleteTopic(ctx, topic)
			if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
				return "", fmt.Errorf("delete topic %s: %w", topic, err)
			}
		}
		return waiting, nil
	})
}
