package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// stateOngoing is a transaction that has been added to and neither committed nor aborted. The
// states of one that is ending (PrepareCommit, PrepareAbort) are not open: their outcome is
// decided.
const stateOngoing = "Ongoing"

// Commit is what a group has committed for a partition.
type Commit struct {
	Offset   int64  // next offset to read, -1 if nothing is committed
	Metadata string // as the committer gave it
}

// OpenTransactions returns the sorted transactional ids with the given prefix whose transaction is
// open.
func (c *Cluster) OpenTransactions(ctx context.Context, prefix string) ([]string, error) {
	return c.transactions(ctx, prefix, stateOngoing)
}

// EndingTransactions lists, in order, the transactional ids with that prefix whose transaction is
// decided, while its markers are still being written.
func (c *Cluster) EndingTransactions(ctx context.Context, prefix string) ([]string, error) {
	return c.transactions(ctx, prefix, "PrepareCommit", "PrepareAbort")
}

func (c *Cluster) transactions(ctx context.Context, prefix string, states ...string) ([]string, error) {
	// The prefix is matched here: brokers before 4.1 ignore a pattern without a word.
	txns, err := c.admin.ListTransactions(ctx, nil, states)
	if err != nil {
		return nil, fmt.Errorf("cluster: list transactions: %w", err)
	}
	var open []string
	for id := range txns {
		if strings.HasPrefix(id, prefix) {
			open = append(open, id)
		}
	}
	slices.Sort(open)
	return open, nil
}

// EndOffsets returns the high watermark of each partition of a topic: the offset that the next
// record gets, counting transaction markers and records that are not committed.
func (c *Cluster) EndOffsets(ctx context.Context, topic string) ([]int64, error) {
	return listOffsets(ctx, topic, "end", c.admin.ListEndOffsets)
}

// AwaitReplicas waits until every replica of every partition is in sync.
func (c *Cluster) AwaitReplicas(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err := await(ctx, func(ctx context.Context) (string, error) {
		md, err := c.admin.Metadata(ctx)
		if err != nil {
			return err.Error(), nil //nolint:nilerr // a broker that has just come back
		}
		for _, topic := range md.Topics {
			for _, p := range topic.Partitions {
				if p.Err != nil || len(p.ISR) < len(p.Replicas) {
					return fmt.Sprintf("%s-%d has %d of %d replicas in sync", topic.Topic, p.Partition, len(p.ISR), len(p.Replicas)), nil //nolint:nilerr // what is waited for
				}
			}
		}
		return "", nil
	})
	if err != nil {
		return fmt.Errorf("cluster: wait for replicas: %w", err)
	}
	return nil
}

// StableOffsets returns the last stable offset of each partition of a topic: where a read_committed
// consumer stops for now. What is between it and the end is of a transaction that is open, or
// behind one.
func (c *Cluster) StableOffsets(ctx context.Context, topic string) ([]int64, error) {
	return listOffsets(ctx, topic, "last stable", c.admin.ListCommittedOffsets)
}

func listOffsets(
	ctx context.Context, topic, which string,
	list func(context.Context, ...string) (kadm.ListedOffsets, error),
) ([]int64, error) {
	listed, err := list(ctx, topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("cluster: %s offsets of topic %s: %w", which, topic, err)
	}
	if len(listed[topic]) == 0 {
		return nil, fmt.Errorf("cluster: %s offsets of topic %s: no partition listed", which, topic)
	}
	offsets := make([]int64, len(listed[topic]))
	for p := range offsets {
		o, ok := listed.Lookup(topic, int32(p))
		if !ok {
			return nil, fmt.Errorf("cluster: %s offsets of topic %s: none for partition %d", which, topic, p)
		}
		offsets[p] = o.Offset
	}
	return offsets, nil
}

// WaitStable waits until no transaction is open on any partition of the topics, that is until
// everybody sees everything: the last stable offset equals the high watermark. The error at the end
// of ctx, or after 45 s, names the transactions that are in the way.
func (c *Cluster) WaitStable(ctx context.Context, topics ...string) error {
	for _, topic := range topics {
		if err := c.settle(ctx, topic, nil); err != nil {
			return err
		}
	}
	return nil
}

// WaitEnded waits until no transaction of the ids with that prefix is being ended. A commit is
// answered before its markers are written, and they still move the ends of topics and the offsets
// of groups: who compares two looks at those waits before each. It gives up after 45 s.
func (c *Cluster) WaitEnded(ctx context.Context, prefix string) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	return await(ctx, func(ctx context.Context) (string, error) {
		ending, err := c.EndingTransactions(ctx, prefix)
		if len(ending) == 0 {
			return "", err
		}
		return "the markers of " + strings.Join(ending, ", "), nil
	})
}

// settle waits until the last stable offset of each partition has reached its target; nil targets
// are the high watermarks, wherever they are by then.
func (c *Cluster) settle(ctx context.Context, topic string, targets []int64) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	var behind []int32
	err := await(ctx, func(ctx context.Context) (string, error) {
		// In this order: a stable offset that equals a high watermark read later equals it at that
		// time too.
		stable, err := c.StableOffsets(ctx, topic)
		if err != nil {
			return "", err
		}
		ends := targets
		if ends == nil {
			if ends, err = c.EndOffsets(ctx, topic); err != nil {
				return "", err
			}
		}
		behind = nil
		var waiting []string
		for p, end := range ends {
			if stable[p] < end {
				behind = append(behind, int32(p))
				waiting = append(waiting, fmt.Sprintf("%s-%d is stable up to %d of %d", topic, p, stable[p], end))
			}
		}
		return strings.Join(waiting, ", "), nil
	})
	if err == nil {
		return nil
	}
	if len(behind) > 0 {
		err = fmt.Errorf("%w; %s", err, c.holders(ctx, topic, behind))
	}
	return fmt.Errorf("cluster: wait for the transactions on topic %s to end: %w", topic, err)
}

// holders describes the transactions that are open on the partitions. It is part of an error
// message, so what it cannot find out it says instead of failing.
func (c *Cluster) holders(ctx context.Context, topic string, partitions []int32) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout) // ctx has just ended
	defer cancel()
	var set kadm.TopicsSet
	set.Add(topic, partitions...)
	producers, err := c.admin.DescribeProducers(ctx, set)
	if err != nil {
		return fmt.Sprintf("what holds them is unknown (describe producers: %v)", err)
	}
	txns, err := c.admin.ListTransactions(ctx, nil, nil)
	if err != nil {
		return fmt.Sprintf("what holds them is unknown (list transactions: %v)", err)
	}
	names := make(map[int64]string)
	for id, txn := range txns {
		names[txn.ProducerID] = fmt.Sprintf("%s (%s)", id, txn.State)
	}
	var holders []string
	for _, p := range producers.SortedProducers() {
		if p.CurrentTxnStartOffset < 0 {
			continue
		}
		name, ok := names[p.ProducerID]
		if !ok {
			name = "an unlisted transaction"
		}
		holders = append(holders, fmt.Sprintf("%s-%d is held from offset %d by %s, producer id %d epoch %d",
			p.Topic, p.Partition, p.CurrentTxnStartOffset, name, p.ProducerID, p.ProducerEpoch))
	}
	if len(holders) == 0 {
		return "no transaction is open on them by now"
	}
	return strings.Join(holders, ", ")
}

// CommittedOffsets returns what a group has committed for every partition of the topics, by
// partition number. Where a commit is part of a transaction that has not ended, it waits for the
// end: until ctx ends, or 45 s.
//
// The request names every partition, because the forms that do not leave out a partition whose
// first commit is still pending. That is also why this is not one of the admin client's calls.
func (c *Cluster) CommittedOffsets(
	ctx context.Context, group string, topics ...string,
) (map[string][]Commit, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	commits, err := c.committedOffsets(ctx, group, topics)
	if err != nil {
		return nil, fmt.Errorf("cluster: committed offsets of group %s: %w", group, err)
	}
	return commits, nil
}

func (c *Cluster) committedOffsets(
	ctx context.Context, group string, topics []string,
) (map[string][]Commit, error) {
	md, err := c.admin.Metadata(ctx, topics...)
	if err == nil {
		err = md.Topics.Error()
	}
	if err != nil {
		return nil, err
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = true
	reqGroup := kmsg.NewOffsetFetchRequestGroup()
	reqGroup.Group = group
	commits := make(map[string][]Commit)
	for _, topic := range topics {
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic = topic
		t.Partitions = md.Topics[topic].Partitions.Numbers()
		reqGroup.Topics = append(reqGroup.Topics, t)
		commits[topic] = make([]Commit, len(t.Partitions))
	}
	req.Groups = append(req.Groups, reqGroup)

	err = await(ctx, func(ctx context.Context) (string, error) {
		resp, err := req.RequestWith(ctx, c.client)
		if err != nil {
			return retryReason(err) // a young cluster has no group coordinator yet
		}
		return readCommits(resp, commits)
	})
	return commits, err
}

// readCommits fills commits from an answer. It returns why to ask again, or "".
func readCommits(resp *kmsg.OffsetFetchResponse, commits map[string][]Commit) (waiting string, err error) {
	answered, asked := 0, 0
	for _, of := range commits {
		asked += len(of)
	}
	for _, g := range resp.Groups {
		err := kerr.ErrorForCode(g.ErrorCode)
		if errors.Is(err, kerr.GroupIDNotFound) {
			for _, of := range commits {
				for p := range of {
					of[p] = Commit{Offset: -1}
				}
			}
			return "", nil
		}
		if err != nil {
			return retryReason(err)
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return retryReason(fmt.Errorf("%s-%d: %w", t.Topic, p.Partition, err))
				}
				commit := Commit{Offset: p.Offset}
				if p.Metadata != nil {
					commit.Metadata = *p.Metadata
				}
				commits[t.Topic][p.Partition] = commit
				answered++
			}
		}
	}
	if answered != asked {
		return "", fmt.Errorf("the answer has %d of the %d partitions asked for", answered, asked)
	}
	return "", nil
}

// retryReason turns an error that passes into a reason to wait.
func retryReason(err error) (waiting string, _ error) {
	if kerr.IsRetriable(err) || errors.Is(err, kerr.UnstableOffsetCommit) {
		return err.Error(), nil
	}
	return "", err
}
