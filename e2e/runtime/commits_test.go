package runtime_test

// What the broker does with offset commits inside transactions: the facts that the commit protocol
// is built on. The embedded broker does not know them (it applies offsets in the order of the
// commits, has no limit for metadata, and is stable or not as a whole group), so these tests run on
// real Kafka only.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/onceward/onceward/e2e/cluster"
)

// commits is a group that two transactional producers commit to, without a runtime around them.
type commits struct {
	*cluster.Cluster
	t              *testing.T
	ctx            context.Context
	group, in, out string
	ids            []string
	producers      []*kgo.Client
}

// commitsPatience bounds each of these tests.
const commitsPatience = 2 * time.Minute

func newCommits(t *testing.T) *commits {
	t.Helper()
	k := cluster.Kafka(t) // its start does not count
	ctx, cancel := context.WithTimeout(t.Context(), commitsPatience)
	t.Cleanup(cancel)
	c := &commits{
		Cluster: k, t: t, ctx: ctx, group: k.Name(t, "group"), in: k.Name(t, "in"), out: k.Name(t, "out"),
	}
	for _, topic := range []string{c.in, c.out} {
		c.must(k.CreateTopic(ctx, topic, 2, nil))
	}
	for range 2 {
		id := k.Name(t, "id")
		c.ids = append(c.ids, id)
		c.producers = append(c.producers, k.Client(t, kgo.TransactionalID(id), kgo.DefaultProduceTopic(c.out),
			kgo.MetadataMinAge(250*time.Millisecond), namingTopics()))
	}
	return c
}

// namingTopics keeps a client to the versions of offset requests that name topics.
func namingTopics() kgo.Opt {
	v := kversion.Stable()
	v.SetMaxKeyVersion(int16(kmsg.TxnOffsetCommit), 5)
	v.SetMaxKeyVersion(int16(kmsg.OffsetFetch), 8)
	return kgo.MaxVersions(v)
}

func (c *commits) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// begin opens a transaction with one record.
func (c *commits) begin(producer int, value string) {
	c.t.Helper()
	c.must(c.producers[producer].BeginTransaction())
	c.must(c.producers[producer].ProduceSync(c.ctx, kgo.StringRecord(value)).FirstErr())
}

func (c *commits) end(producer int, how kgo.TransactionEndTry) {
	c.t.Helper()
	c.must(c.producers[producer].EndTransaction(c.ctx, how))
}

// offsets adds the offsets of partitions 0, 1 and so on to the producer's transaction, from outside
// of the group. It returns the error of each partition.
func (c *commits) offsets(producer int, of ...cluster.Commit) []error {
	c.t.Helper()
	cl := c.producers[producer]
	pid, epoch, err := cl.ProducerID(c.ctx)
	c.must(err)
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group = c.ids[producer], c.group
	req.ProducerID, req.ProducerEpoch, req.Generation = pid, epoch, -1
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic = c.in
	for p, o := range of {
		part := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset, part.LeaderEpoch, part.Metadata = int32(p), o.Offset, -1, kmsg.StringPtr(o.Metadata)
		topic.Partitions = append(topic.Partitions, part)
	}
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(c.ctx, cl)
	c.must(err)
	errs := make([]error, len(of))
	for _, p := range resp.Topics[0].Partitions {
		errs[p.Partition] = kerr.ErrorForCode(p.ErrorCode)
	}
	return errs
}

// committed returns what the group has committed, once no transaction is about to change it.
func (c *commits) committed() []cluster.Commit {
	c.t.Helper()
	of, err := c.CommittedOffsets(c.ctx, c.group, c.in)
	c.must(err)
	return of[c.in]
}

// TestOrderOfRounds: rule 3.2, and its negative control. The two producers of a worker take turns:
// round 0 is input 0 to 9, round 1 is input 10 to 19. If the offsets of round 1 are sent when the
// commit of round 0 has been answered, the group ends up where the output is. If they are sent
// earlier, it need not: they can come to stand before those of round 0, or commit without them.
// Among commits that are pending together the last one in the log of offsets wins, in whatever
// order their transactions end. Row of the failure matrix: out-of-order completion.
func TestOrderOfRounds(t *testing.T) {
	t.Parallel()
	const perRound = 10
	for _, tc := range []struct {
		name string
		do   func(offsets, commit, abort func(round int))
		// at is where the group ends up. What lies before it and is not in the output is lost; what
		// lies behind it and is in the output will be there twice.
		at, lost, repeated int
	}{
		{"one after the other", func(offsets, commit, _ func(int)) {
			offsets(0)
			commit(0)
			offsets(1)
			commit(1)
		}, 20, 0, 0},
		{"the first one is aborted before the second is sent", func(offsets, _, abort func(int)) {
			offsets(0)
			abort(0)
			abort(1)
		}, -1, 0, 0},
		{"broken: the second one's offsets come first", func(offsets, commit, _ func(int)) {
			offsets(1)
			offsets(0)
			commit(0)
			commit(1)
		}, 10, 0, 10},
		{"broken: the second one commits, the first one does not", func(offsets, commit, abort func(int)) {
			offsets(0)
			offsets(1)
			commit(1)
			abort(0)
		}, 20, 10, 0},
		{"the order of the ends makes no difference", func(offsets, commit, _ func(int)) {
			offsets(0)
			offsets(1)
			commit(1)
			commit(0)
		}, 20, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCommits(t)
			for round := range 2 { // computing, and sending records, may overlap
				c.begin(round, fmt.Sprint(round))
			}
			tc.do(
				func(round int) {
					c.must(errors.Join(c.offsets(round, cluster.Commit{Offset: int64((round + 1) * perRound)})...))
				},
				func(round int) { c.end(round, kgo.TryCommit) },
				func(round int) { c.end(round, kgo.TryAbort) },
			)
			at := int(c.committed()[0].Offset)
			if at != tc.at {
				t.Errorf("the group is at %d, want %d", at, tc.at)
			}
			parts, err := c.ReadAll(c.ctx, c.out)
			c.must(err)
			done := map[string]bool{}
			for _, r := range slices.Concat(parts...) {
				done[string(r.Value)] = true
			}
			lost, repeated := 0, 0
			for input := range 2 * perRound {
				switch out := done[fmt.Sprint(input/perRound)]; {
				case input < at && !out:
					lost++
				case input >= at && out:
					repeated++
				}
			}
			if lost != tc.lost || repeated != tc.repeated {
				t.Errorf("%d inputs are lost and %d will be repeated, want %d and %d", lost, repeated, tc.lost, tc.repeated)
			}
		})
	}
}

// TestFirstCommitIsPending: rule 5.2. While the first commit ever of a partition is pending, a
// stable answer for partitions by name says so for just that one. The answer for "all partitions"
// leaves it out without an error, as if nothing were about to be committed.
func TestFirstCommitIsPending(t *testing.T) {
	t.Parallel()
	c := newCommits(t)
	c.begin(0, "v")
	c.must(errors.Join(c.offsets(0, cluster.Commit{Offset: 7, Metadata: "ours"})...))

	unstable := kerr.UnstableOffsetCommit.Error()
	want := map[int32]string{0: unstable, 1: "-1 "}
	if got := c.stable(0, 1); !maps.Equal(got, want) {
		t.Errorf("by name, the stable offsets are %q, want %q", got, want)
	}
	if got := c.stable(); len(got) != 0 {
		t.Errorf("asked for all, the stable offsets are %q, want none: not even the pending one", got)
	}
	c.end(0, kgo.TryCommit)
	if got := c.committed()[0]; got != (cluster.Commit{Offset: 7, Metadata: "ours"}) {
		t.Errorf("committed is %+v", got)
	}
	want = map[int32]string{0: "7 ours"}
	if got := c.stable(); !maps.Equal(got, want) {
		t.Errorf("asked for all, the stable offsets are %q, want %q", got, want)
	}

	// By name it is the same with a later commit: what is committed is not told while something
	// newer is pending.
	c.begin(0, "v")
	c.must(errors.Join(c.offsets(0, cluster.Commit{Offset: 8})...))
	if got := c.stable(0)[0]; got != unstable {
		t.Errorf("by name, the stable offset is %q, want %q", got, unstable)
	}
	c.end(0, kgo.TryAbort)
	if got := c.committed()[0].Offset; got != 7 {
		t.Errorf("after the abort the group is at %d, want 7", got)
	}
}

// stable asks once for the stable offsets of some partitions by name, or of all of them if none is
// named. It returns for each partition of the answer its error, or its offset and metadata.
func (c *commits) stable(partitions ...int32) map[int32]string {
	c.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = true
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = c.group
	if len(partitions) > 0 {
		topic := kmsg.NewOffsetFetchRequestGroupTopic()
		topic.Topic, topic.Partitions = c.in, partitions
		group.Topics = append(group.Topics, topic)
	}
	req.Groups = append(req.Groups, group)
	resp, err := req.RequestWith(c.ctx, c.producers[1])
	c.must(err)
	c.must(kerr.ErrorForCode(resp.Groups[0].ErrorCode))
	found := map[int32]string{}
	for _, topic := range resp.Groups[0].Topics {
		for _, p := range topic.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				found[p.Partition] = err.Error()
				continue
			}
			found[p.Partition] = fmt.Sprintf("%d %s", p.Offset, *p.Metadata)
		}
	}
	return found
}

// TestMetadataLimit: rule 4.2, and the reason why in 2.3 any partition's error aborts. Metadata
// above the broker's limit is refused for its partition, while the others of the request are
// accepted and would be committed.
func TestMetadataLimit(t *testing.T) {
	t.Parallel()
	const limit = 4096 // offset.metadata.max.bytes, the broker's default
	c := newCommits(t)
	c.begin(0, "v")
	long := strings.Repeat("m", limit)
	errs := c.offsets(0, cluster.Commit{Offset: 1, Metadata: long}, cluster.Commit{Offset: 1, Metadata: long + "m"})
	if errs[0] != nil || !errors.Is(errs[1], kerr.OffsetMetadataTooLarge) {
		t.Errorf("the answers are %v, want that only the second one is refused", errs)
	}
	c.end(0, kgo.TryCommit)
	if got := c.committed(); got[0].Offset != 1 || len(got[0].Metadata) != limit || got[1].Offset != -1 {
		t.Errorf("the offsets are %d (%d characters) and %d, want 1 (%d characters) and -1",
			got[0].Offset, len(got[0].Metadata), got[1].Offset, limit)
	}
}
