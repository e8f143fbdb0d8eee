package admin_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/admin"
)

// lookedAt counts words behind a repartitioning. A word that is no word fails, stop stops the task,
// and again has to be tried twice.
func lookedAt(t *testing.T) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("looked-at", topology.DeadLetters("dead"))
	in := topology.From(b, topology.Topic("in", schemas.String(), schemas.String()))
	byWord := topology.RepartitionWith(topology.SelectKey(in, "word",
		func(r topology.Record[string, string]) (string, error) { return r.Value, nil }),
		"words", schemas.String(), schemas.String())
	counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
	topology.Process(byWord, "count", counts, func(c *topology.Context, rows state.KeyValue[string, int64],
		r topology.Record[string, string], emit topology.Emit[string, string]) error {
		switch {
		case c.Mode() != topology.Forensic:
			return errors.New("this is no forensic run")
		case r.Key == "":
			return topology.Fail(topology.Validation, schemas.Reason("no word"))
		case r.Key == "stop":
			return topology.Fail(topology.Fatal, schemas.Reason("asked to"))
		case r.Key == "again" && c.Attempt() == 1:
			return topology.Fail(topology.Transient, schemas.Reason("asked to"))
		}
		n, _, err := rows.Get(r.Key)
		if err != nil {
			return err
		}
		if err := rows.Put(r.Key, n+1); err != nil {
			return err
		}
		return emit(c, topology.Record[string, string]{Key: r.Key, Value: fmt.Sprint(n + 1)})
	}).Into(topology.Topic("out", schemas.String(), schemas.String()))
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// TestForensic is the forensic run of requirement I1: it tells what would be done, over repartition
// topics and state, and leaves nothing: no record, no topic, no group, no file.
func TestForensic(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		ctx := t.Context()
		client, broker := connect(t, kfake.SeedTopics(2, "in", "out", "dead"))
		kafka := broker.Client(t, "writer", kgo.RecordPartitioner(kgo.ManualPartitioner()))
		const words = 3000
		var records []*kgo.Record
		for i := range words {
			records = append(records, &kgo.Record{Topic: "in", Partition: int32(i % 2), Key: []byte("k"),
				Value: fmt.Append(nil, "w", i%100)})
		}
		records = append(records, &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte{}},
			&kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("again")})
		if err := kafka.ProduceSync(ctx, records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		before := snapshot(ctx, t, kafka)

		scratch := t.TempDir()
		last := map[string]string{}
		run := func(from admin.Offsets) (admin.ForensicReport, error) {
			keep := func(out graph.Output) error {
				if out.Topic == "out" {
					last[string(out.Key)] = string(out.Value)
				}
				return nil
			}
			return client.Forensic(ctx, lookedAt(t), admin.ForensicOptions{From: from, Scratch: scratch, Output: keep})
		}
		report, err := run(nil)
		if err != nil {
			t.Fatal(err)
		}
		if report.Outputs["out"] != words+1 || report.Outputs["dead"] != 1 || len(report.Stopped) != 0 ||
			fmt.Sprint(report.Outcomes) != "[{count dead-letter-validation 1}]" {
			t.Errorf("the report is %+v", report)
		}
		if got := fmt.Sprint(report.Inputs); got != "[{in 0 0 1502} {in 1 0 1500}]" {
			t.Errorf("the inputs are %s", got)
		}
		if len(last) != 101 || last["w7"] != "30" || last["again"] != "1" {
			t.Errorf("the last outputs are %v", last)
		}
		if after := snapshot(ctx, t, kafka); after != before {
			t.Errorf("the run has changed\n%s\nto\n%s", before, after)
		}

		// From the end there is nothing; a task that stops says where.
		if report, err := run(admin.Offsets{"in": admin.End}); err != nil || len(report.Outputs) != 0 {
			t.Errorf("from the end: %+v, %v", report, err)
		}
		stop := kgo.Record{Topic: "in", Partition: 1, Key: []byte("k"), Value: []byte("stop")}
		if err := kafka.ProduceSync(ctx, &stop).FirstErr(); err != nil {
			t.Fatal(err)
		}
		report, err = run(admin.Offsets{"in": 1499})
		if err != nil || len(report.Stopped) != 1 || report.Stopped[0].Reason != "node count: fatal: asked to; the task stops because the policy of class fatal is Stop" {
			t.Errorf("with a record that stops: %+v, %v", report, err)
		}
		for _, from := range []admin.Offsets{{"in": 5000}, {"other": 0}} {
			if _, err := run(from); err == nil {
				t.Errorf("from %v there is something", from)
			}
		}
		if left, err := os.ReadDir(scratch); err != nil || len(left) != 0 {
			t.Errorf("the scratch directory has %v, error %v", left, err)
		}
	})
}

// snapshot says what is on the cluster.
func snapshot(ctx context.Context, t *testing.T, kafka *kgo.Client) string {
	t.Helper()
	adm := kadm.NewClient(kafka)
	ends, err := adm.ListEndOffsets(ctx)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := adm.ListGroups(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var text []string
	for _, o := range ends.Offsets().Sorted() {
		text = append(text, fmt.Sprintf("%s[%d]=%d", o.Topic, o.Partition, o.At))
	}
	return strings.Join(append(text, groups.Groups()...), "\n")
}
