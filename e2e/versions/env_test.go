package versions

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/schemas"
)

const (
	partitions = 6
	// settleLimit is how long anything may take on a slow machine.
	settleLimit = 90 * time.Second
	pollEvery   = 50 * time.Millisecond
)

// env is one scenario on one cluster.
type env struct {
	*cluster.Cluster
	t                    *testing.T
	builds               builds
	application, in, out string
	producer             *kgo.Client
	fed                  int64 // records in each partition, which all have one key
}

func newEnv(t *testing.T, c *cluster.Cluster, b builds) *env {
	t.Helper()
	e := &env{
		Cluster: c, t: t, builds: b, application: c.Name(t, "app"), in: c.Name(t, "in"), out: c.Name(t, "out"),
		producer: c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner())),
	}
	c.CreateTopics(t, partitions, e.in, e.out)
	return e
}

// feed writes n records to each partition.
func (e *env) feed(n int) {
	e.t.Helper()
	var records []*kgo.Record
	for range n {
		e.fed++
		for p := range int32(partitions) {
			records = append(records, &kgo.Record{Topic: e.in, Partition: p, Key: fmt.Append(nil, "key", p), Value: []byte("v"), Timestamp: time.Now()})
		}
	}
	if err := e.producer.ProduceSync(e.t.Context(), records...).FirstErr(); err != nil {
		e.t.Fatal(err)
	}
}

// until polls for as long as ok says what is missing, and feeds meanwhile.
func (e *env) until(what string, feed int, ok func() (missing string)) {
	e.t.Helper()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for deadline := time.Now().Add(settleLimit); ; {
		e.feed(feed)
		missing := ok()
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			e.t.Fatalf("%s: not within %s: %s", what, settleLimit, missing)
		}
		<-tick.C
	}
}

// member is an instance as the coordinator describes it.
type member struct {
	minor    byte // of its join data: which build it is
	assigned []int32
}

// view is the group as the coordinator describes it.
type view struct {
	state      string
	members    map[string]member // by instance
	plan       string
	generation uint32
	leader     byte // the minor version of the plan: which build made it
}

func (e *env) view() view {
	e.t.Helper()
	groups, err := e.Admin().DescribeGroups(e.t.Context(), e.application)
	group := groups[e.application]
	v := view{state: group.State, members: map[string]member{}}
	if err = errors.Join(err, group.Err); err != nil {
		v.state = err.Error()
		return v
	}
	for _, m := range group.Members {
		var described member
		if join, ok := m.Join.AsConsumer(); ok && len(join.UserData) > 2 {
			described.minor = join.UserData[1]
		}
		if a, ok := m.Assigned.AsConsumer(); ok {
			for _, topic := range a.Topics {
				described.assigned = append(described.assigned, topic.Partitions...)
			}
			// The first field of a plan is its id, which begins with the generation.
			if data := a.UserData; len(data) > 12 && data[2] == 1 && data[3] == 8 {
				v.plan, v.leader, v.generation = string(data[4:12]), data[1], binary.BigEndian.Uint32(data[4:])
			}
		}
		v.members[*m.InstanceID] = described
	}
	return v
}

// evenly says what a group is missing to be stable with those members, each at so many tasks.
func (v view) evenly(tasks int, instances ...string) string {
	ok := v.state == "Stable" && len(v.members) == len(instances)
	for _, instance := range instances {
		ok = ok && len(v.members[instance].assigned) == tasks
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("the group is %+v", v)
}

// commits returns what is committed, once all that was fed is.
func (e *env) commits() []cluster.Commit {
	e.t.Helper()
	var out []cluster.Commit
	e.until("processing everything", 0, func() (missing string) {
		out = e.committed()
		for p, c := range out {
			if c.Offset < e.fed {
				return fmt.Sprintf("partition %d is at %d of %d", p, c.Offset, e.fed)
			}
		}
		return ""
	})
	return out
}

func (e *env) committed() []cluster.Commit {
	e.t.Helper()
	all, err := e.CommittedOffsets(e.t.Context(), e.application, e.in)
	if err != nil {
		e.t.Fatal(err)
	}
	return all[e.in]
}

// byNext reports whether the next build wrote a commit: it has a field at its end that this build does not write.
func byNext(t *testing.T, c cluster.Commit) bool {
	t.Helper()
	_, body, ok := strings.Cut(c.Metadata, ":")
	raw, err := base64.RawStdEncoding.DecodeString(body)
	if !ok || err != nil {
		t.Fatalf("%q is not the metadata of a task", c.Metadata)
	}
	return strings.HasSuffix(string(raw), "next")
}

// checkExact asserts that each record was counted once and in order.
func (e *env) checkExact() {
	e.t.Helper()
	e.commits()
	got, want := map[string]int64{}, map[string]int64{}
	for p := range partitions {
		want[fmt.Sprint("key", p)] = e.fed
	}
	for _, r := range e.Records(e.t, e.out) {
		n, err := schemas.Int64().Decode(r.Value)
		if err != nil || n != got[string(r.Key)]+1 {
			e.t.Fatalf("%s: %d follows %d (%v)", r.Key, n, got[string(r.Key)], err)
		}
		got[string(r.Key)] = n
	}
	if !maps.Equal(got, want) {
		e.t.Fatalf("the counts are %v, want %v", got, want)
	}
}
