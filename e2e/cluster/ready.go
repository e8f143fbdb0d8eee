package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// transactionVersion is the feature level at which a broker bumps a producer's epoch with every
// transaction, which is what Onceward's commit protocol needs of it.
const transactionVersion = 2

// awaitReady waits until the broker answers as itself, creates and deletes a topic, and has the
// right features. It gives up as soon as the broker process ends. The caller holds c.mu.
func (c *Cluster) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ended := c.node.ended()
	go func() {
		select {
		case <-ended:
			cancel() // else a request in flight would be retried until its own timeout
		case <-ctx.Done():
		}
	}()

	topic := uniqueName("onceward-probe")
	err := await(ctx, func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		// A broker that is starting refuses in many ways, from connection refused to not having a
		// controller. None of them is final, so all of them are reasons to wait.
		if err := c.probe(ctx, topic); err != nil {
			return err.Error(), nil
		}
		return "", nil
	})
	select {
	case <-ended:
		return c.explain(c.node.cause())
	default:
	}
	if err != nil {
		return c.explain(fmt.Errorf("it does not answer at %v: %w", c.node.addrs(), err))
	}
	return c.checkFeatures(ctx)
}

// probe makes the broker do a little of everything a test starts with.
func (c *Cluster) probe(ctx context.Context, topic string) error {
	md, err := c.admin.BrokerMetadata(ctx)
	if err != nil {
		return fmt.Errorf("describe the cluster: %w", err)
	}
	// Somebody else's broker may have won the race for our port: it must not be mistaken for ours.
	if want := c.node.clusterID(); want != "" && md.Cluster != want {
		return fmt.Errorf("cluster id %s answers where %s should", md.Cluster, want)
	}
	_, err = c.admin.CreateTopic(ctx, 1, -1, nil, topic)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) { // exists: an earlier attempt timed out
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	waiting, err := c.topicPending(ctx, topic, 1)
	if err != nil {
		return fmt.Errorf("describe topic %s: %w", topic, err)
	}
	if waiting != "" {
		return fmt.Errorf("describe topic %s: %s", topic, waiting)
	}
	if _, err := c.admin.DeleteTopic(ctx, topic); err != nil {
		return fmt.Errorf("delete topic %s: %w", topic, err)
	}
	return nil
}

// checkFeatures refuses a cluster with older transactions: a test that passes there proves nothing.
func (c *Cluster) checkFeatures(ctx context.Context) error {
	if c.anyFeatures {
		return nil
	}
	versions, err := c.admin.ApiVersions(ctx)
	if err != nil {
		return fmt.Errorf("ask for the features: %w", err)
	}
	for id, v := range versions {
		if v.Err != nil {
			return fmt.Errorf("ask broker %d for its features: %w", id, v.Err)
		}
		level := int16(0) // a feature that is not listed is at level 0
		for _, f := range v.Raw().FinalizedFeatures {
			if f.Name == "transaction.version" {
				level = f.MaxVersionLevel
			}
		}
		if level < transactionVersion {
			return fmt.Errorf("broker %d has transaction.version %d, Onceward needs %d: upgrade the feature with "+
				"kafka-features.sh or use another cluster", id, level, transactionVersion)
		}
	}
	return nil
}

// await calls try until it waits for nothing any more, fails, or ctx ends. try returns what is
// still missing; the error at the end of ctx tells what was missing last.
func await(ctx context.Context, try func(context.Context) (waiting string, err error)) error {
	last := "nothing, no answer came"
	for {
		waiting, err := try(ctx)
		if err == nil && waiting == "" {
			return nil
		}
		if waiting != "" {
			last = waiting
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		if !pause(ctx) {
			return fmt.Errorf("gave up waiting: %w (last seen: %s)", context.Cause(ctx), last)
		}
	}
}

// pause waits for one polling interval; it returns false if ctx ended.
func pause(ctx context.Context) bool {
	t := time.NewTimer(pollInterval)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
