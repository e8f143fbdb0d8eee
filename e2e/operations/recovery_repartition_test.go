package operations_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
)

// repartitioned counts the records by the partition that they come from, behind a repartition
// topic.
func (e *recoveryScene) repartitioned() *topology.Topology {
	b := topology.NewBuilder("repartitioning")
	in := topology.From(b, topology.Topic(e.in, schemas.String(), schemas.String()))
	byPartition := topology.SelectKey(in, "partition", func(r topology.Record[string, string]) (string, error) {
		return strings.SplitN(r.Key, "-", 2)[0], nil
	})
	counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
	topology.Process(topology.RepartitionWith(byPartition, "by-partition", schemas.String(), schemas.String()), "count", counts, func(
		c *topology.Context, counts state.KeyValue[string, int64], r topology.Record[string, string], emit topology.Emit[string, string],
	) error {
		return bump(c, counts, r, 1, emit)
	}).Into(topology.Topic(e.out, schemas.String(), schemas.String()))
	return e.built(b)
}

// TestRepartition: what reads a repartition topic is rebuilt together with what writes to it, or
// while nothing of it is deleted.
func TestRepartition(t *testing.T) {
	t.Parallel()
	cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) {
		e := newRecoveryScene(t, c)
		total := 0
		// life feeds 50 records to each partition and waits until as many are written as there were
		// to write.
		life := func(rewritten int) {
			t.Helper()
			e.feed(50)
			total += 50*recoveryPartitions + rewritten
			a := e.startOf(e.repartitioned())
			a.Until(fmt.Sprint(total, " records of output"), func(txn.Status) bool { return e.written() >= total })
			if err := a.Stop(); err != nil {
				t.Fatal(err)
			}
			if n := e.written(); n != total {
				t.Errorf("%d records are written, want %d", n, total)
			}
		}
		life(0)
		op := e.operatorOf(e.repartitioned())
		fromInput := func(tasks ...string) action {
			return func(ctx context.Context, o admin.Options) (admin.Report, error) {
				o.Tasks = tasks
				return op.RebuildFromInput(ctx, o, nil)
			}
		}
		repartition := e.application + "-by-partition-repartition"
		downstream := []string{"by-partition_0", "by-partition_1"}
		e.refuses(fromInput(e.in+"_0"), repartition+" would be written again", "rebuild all tasks of")
		e.refuses(fromInput(append(downstream, e.in+"_1")...), repartition+" would be written again")
		e.does(fromInput(downstream...)) // nothing of it is deleted yet
		life(50 * recoveryPartitions)
		e.last(100)

		purged, err := e.EndOffsets(t.Context(), repartition)
		if err != nil {
			t.Fatal(err)
		}
		before := kadm.Offsets{}
		for p, end := range purged {
			before.AddOffset(repartition, int32(p), end, -1)
		}
		if _, err := e.Admin().DeleteRecords(t.Context(), before); err != nil {
			t.Fatal(err)
		}
		e.refuses(fromInput(downstream...), "is a repartition topic, and its records below offset", "rebuild all tasks of "+e.in)
		if _, err := op.RebuildFromInput(t.Context(), admin.Options{}, admin.Offsets{repartition: 0}); !errors.Is(err, admin.ErrRefused) {
			t.Errorf("an offset of a topic that is written again gave %v, want a refusal", err)
		}
		e.does(fromInput())
		life(100 * recoveryPartitions)
		e.last(150)
	})
}

// written is the number of committed outputs.
func (e *recoveryScene) written() int {
	e.t.Helper()
	return len(e.Records(e.t, e.out))
}

// last asserts that the counts of each key go up by one or begin again at one, and end at n.
func (e *recoveryScene) last(n int) {
	e.t.Helper()
	counts := map[string]int{}
	for _, r := range e.Records(e.t, e.out) {
		_, text, _ := strings.Cut(string(r.Value), "=")
		count, err := strconv.Atoi(text)
		if err != nil || count != 1 && count != counts[string(r.Key)]+1 {
			e.t.Fatalf("key %s: %s follows %d", r.Key, text, counts[string(r.Key)])
		}
		counts[string(r.Key)] = count
	}
	for key, count := range counts {
		if count != n {
			e.t.Errorf("key %s was counted to %d, want %d", key, count, n)
		}
	}
}
