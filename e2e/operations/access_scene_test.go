package operations_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/e2e/testapp"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/security"
)

const (
	user     = "app"
	password = "canary-k2Jq"
)

// accessScene is one application on a secured broker, with its topics.
type accessScene struct {
	*cluster.Cluster
	t        *testing.T
	brokers  []string // where the application finds them
	producer *kgo.Client
	top      *topology.Topology
	stateDir string
	fed      int
}

// newAccessScene uses one broker for several applications: names are told apart by app.
func newAccessScene(t *testing.T, c *cluster.Cluster, app string) *accessScene {
	t.Helper()
	e := &accessScene{Cluster: c, t: t, brokers: c.SASLBrokers(), producer: c.Client(t), stateDir: t.TempDir()}
	c.CreateTopics(t, 2, app+"in", app+"out", app+"dead")
	b := topology.NewBuilder(app, topology.DeadLetters(app+"dead"))
	in := topology.From(b, topology.Topic(app+"in", schemas.String(), schemas.String()))
	again := topology.RepartitionWith(in, "again", schemas.String(), schemas.String())
	counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
	topology.Process(again, "count", counts, countRecord).Into(topology.Topic(app+"out", schemas.String(), schemas.Int64()))
	var err error
	if e.top, err = b.Build(); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *accessScene) topic(suffix string) string { return e.top.Application() + suffix }

// feed writes n records and one that fails.
func (e *accessScene) feed(n int) {
	e.t.Helper()
	for i := range n + 1 {
		r := &kgo.Record{Topic: e.topic("in"), Key: []byte{'a' + byte(i%5)}, Value: []byte("v")}
		if i == n {
			r.Value = []byte("poison")
		}
		if err := e.producer.ProduceSync(e.t.Context(), r).FirstErr(); err != nil {
			e.t.Fatal(err)
		}
	}
	e.fed += n
}

func scramAs(mechanism security.Mechanism) security.Config {
	return security.Config{SASL: security.SASL{Mechanism: mechanism, User: user, Password: security.NewSecret(password)}}
}

func (e *accessScene) start(s security.Config) *instance.App {
	e.t.Helper()
	log := instance.NewLog(e.t, "the application")
	return instance.Start(e.t, e.top, txn.Config{
		Brokers: e.brokers, StateDir: e.stateDir, Workers: 1, Security: s, ConnectTimeout: 60 * time.Second,
		Logger:   slog.New(slog.NewTextHandler(log, nil)).With("test", e.t.Name()),
		FailFast: true, // what one task cannot do without shows at once
	})
}

// await waits until everything that was fed is counted.
func (e *accessScene) await(a *instance.App) {
	e.t.Helper()
	a.Until(fmt.Sprint(e.fed, " counts"), func(txn.Status) bool { return e.count(e.topic("out")) >= e.fed })
}

func (e *accessScene) count(topic string) int {
	e.t.Helper()
	return len(e.Records(e.t, topic))
}

// check asserts that the counts of every key go up by one and that they are all there.
func (e *accessScene) check() {
	e.t.Helper()
	n := 0
	for _, count := range testapp.LastCounts(e.t, e.Records(e.t, e.topic("out"))) {
		n += int(count)
	}
	if n != e.fed {
		e.t.Errorf("%d counts, want %d", n, e.fed)
	}
}

// snapshot is everything that a run without a permission must not change: the ends of all topics
// and the committed offsets. The group has to exist.
func (e *accessScene) snapshot() string {
	e.t.Helper()
	offsets, err := e.Admin().FetchOffsets(e.t.Context(), e.top.Application())
	if err != nil {
		e.t.Fatal(err)
	}
	text := e.ends()
	for _, o := range offsets.Sorted() {
		text += fmt.Sprintf("%s[%d] is committed at %d\n", o.Topic, o.Partition, o.At)
	}
	return text
}

// ends are the topics of the application with their ends.
func (e *accessScene) ends() string {
	e.t.Helper()
	if err := e.WaitEnded(e.t.Context(), e.top.Application()+"~"); err != nil {
		e.t.Fatal(err)
	}
	var names []string
	details, err := e.Admin().ListTopics(e.t.Context())
	if err != nil {
		e.t.Fatal(err)
	}
	for _, d := range details.Sorted() {
		if d.Err == nil && strings.HasPrefix(d.Topic, e.top.Application()) {
			names = append(names, d.Topic)
		}
	}
	ends, err := e.Admin().ListEndOffsets(e.t.Context(), names...)
	if err != nil {
		e.t.Fatal(err)
	}
	var text strings.Builder
	for _, o := range ends.Offsets().Sorted() {
		fmt.Fprintf(&text, "%s[%d] ends at %d\n", o.Topic, o.Partition, o.At)
	}
	return text.String()
}

// acl turns a permission into the ACLs that give it to the user.
func acl(p txn.Permission) *kadm.ACLBuilder {
	b := kadm.NewACLs().Allow("User:" + user).AllowHosts("*")
	switch p.Resource {
	case "Topic":
		b = b.Topics(p.Name)
	case "Group":
		b = b.Groups(p.Name)
	case "TransactionalId":
		b = b.TransactionalIDs(p.Name)
	case "Cluster":
		b = b.Clusters()
	}
	operations := map[string]kadm.ACLOperation{
		"Read": kadm.OpRead, "Write": kadm.OpWrite, "Create": kadm.OpCreate, "Delete": kadm.OpDelete, "DescribeConfigs": kadm.OpDescribeConfigs, "Describe": kadm.OpDescribe,
		"ClusterAction": kadm.OpClusterAction,
	}
	pattern := kadm.ACLPatternLiteral
	if p.Prefix {
		pattern = kadm.ACLPatternPrefixed
	}
	return b.Operations(operations[p.Operation]).ResourcePatternType(pattern)
}

func (e *accessScene) grant(ps ...txn.Permission) {
	e.t.Helper()
	for _, p := range ps {
		created, err := e.Admin().CreateACLs(e.t.Context(), acl(p))
		if err != nil || len(created) != 1 || created[0].Err != nil {
			e.t.Fatalf("granting %+v: %v %+v", p, err, created)
		}
	}
	for _, p := range ps {
		e.untilGiven(p, 1)
	}
}

func (e *accessScene) revoke(p txn.Permission) {
	e.t.Helper()
	deleted, err := e.Admin().DeleteACLs(e.t.Context(), acl(p))
	if err != nil || len(deleted) != 1 || deleted[0].Err != nil || len(deleted[0].Deleted) != 1 {
		e.t.Fatalf("revoking %+v: %v %+v", p, err, deleted)
	}
	e.untilGiven(p, 0)
}

// untilGiven waits until the broker knows so many ACLs for a permission: the controller answers
// before the broker has heard of a change.
func (e *accessScene) untilGiven(p txn.Permission, acls int) {
	e.t.Helper()
	instance.Await(e.t, fmt.Sprintf("%d ACLs for %+v", acls, p), func() error { return nil }, func() error {
		described, err := e.Admin().DescribeACLs(e.t.Context(), acl(p))
		if err != nil || len(described) != 1 || described[0].Err != nil {
			e.t.Fatalf("describing %+v: %v %+v", p, err, described)
		}
		if len(described[0].Described) != acls {
			return fmt.Errorf("the broker has %+v", described[0].Described)
		}
		return nil
	})
}

// addUser makes the user for both SCRAM mechanisms.
func addUser(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	for _, mechanism := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		resp, err := c.Admin().AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{
			{User: user, Mechanism: mechanism, Iterations: 4096, Password: password},
		})
		if err == nil {
			err = resp.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
