package operations_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/e2e/testapp"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

const (
	upgradeProgram    = "upgraded"
	upgradePartitions = 6
	upgradeInterval   = 50 * time.Millisecond // between two looks at what is waited for
)

// upgradeSettings are one instance of the application, which counts the records of each key.
type upgradeSettings struct {
	Brokers     []string
	Application string
	Instance    string
	StateDir    string
	In, Out     string
}

func (s upgradeSettings) Config() txn.Config {
	return txn.Config{
		Brokers: s.Brokers, Application: s.Application, Instance: s.Instance, StateDir: s.StateDir, Workers: 1,
		SessionTimeout: time.Minute, CacheBytes: 8 << 20,
	}
}

func (s upgradeSettings) Topology() (*topology.Topology, error) {
	text, number := schemas.String(), schemas.Int64()
	b := topology.NewBuilder("versions")
	source := topology.From(b, topology.Topic(s.In, text, text))
	topology.Process(source, "count", topology.KeyValueStore("counts", text, number), countRecord).Into(topology.Topic(s.Out, text, number))
	return b.Build()
}

// upgradeScene is one application that runs as two builds.
type upgradeScene struct {
	*cluster.Cluster
	t                    *testing.T
	this, next           string // the paths of the builds
	application, in, out string
	producer             *kgo.Client
	fed                  int64 // records in each partition, which all have one key
}

func newUpgradeScene(t *testing.T, c *cluster.Cluster) *upgradeScene {
	t.Helper()
	s := &upgradeScene{
		Cluster: c, t: t, this: instance.Program(t, upgradeProgram), next: instance.ProgramOf(t, upgradeProgram, "onceward_next"),
		application: c.Name(t, "app"), in: c.Name(t, "in"), out: c.Name(t, "out"),
		producer: c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner())),
	}
	c.CreateTopics(t, upgradePartitions, s.in, s.out)
	return s
}

// feed writes n records to each partition.
func (s *upgradeScene) feed(n int) {
	s.t.Helper()
	var records []*kgo.Record
	for range n {
		s.fed++
		for p := range int32(upgradePartitions) {
			records = append(records, &kgo.Record{Topic: s.in, Partition: p, Key: fmt.Append(nil, "key", p), Value: []byte("v"), Timestamp: time.Now()})
		}
	}
	if err := s.producer.ProduceSync(s.t.Context(), records...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// until waits until ok says that nothing is missing. Before each look it feeds so many records.
func (s *upgradeScene) until(what string, feed int, ok func() (missing string)) {
	s.t.Helper()
	tick := time.NewTicker(upgradeInterval)
	defer tick.Stop()
	instance.Await(s.t, what, func() error { return nil }, func() error {
		s.feed(feed)
		missing := ok()
		if missing == "" {
			return nil
		}
		<-tick.C
		return errors.New(missing)
	})
}

// process is one life of an instance.
type process struct {
	*instance.Process
	t   *testing.T
	dir string
}

// start runs a build. major names the formats whose major version is newer; it means nothing to
// this build.
func (s *upgradeScene) start(build, name, dir, major string) *process {
	s.t.Helper()
	cmd, err := measure.Command(context.Background(), build, instance.SettingsVariable, upgradeSettings{
		Brokers: s.Brokers(), Application: s.application, Instance: name, StateDir: dir, In: s.in, Out: s.out,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, "ONCEWARD_NEXT_MAJOR="+major)
	return &process{instance.Launch(s.t, cmd, instance.NewLog(s.t, "instance "+name)), s.t, dir}
}

// endFed ends a process in order while the input goes on.
func (s *upgradeScene) endFed(p *process) {
	s.t.Helper()
	p.Tell(syscall.SIGTERM)
	s.until("an instance to end", 1, func() string {
		if p.Alive() == nil {
			return "it is still there"
		}
		return ""
	})
	if p.Err() != nil {
		s.t.Fatalf("an instance ended with %v", p.Err())
	}
}

// refused waits until the process has ended by itself, with exit code 1 and one line that says all
// of the texts.
func (p *process) refused(says ...string) {
	p.t.Helper()
	var exit *exec.ExitError
	if err := p.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		p.t.Errorf("the older build ended with %v, want exit code 1", err)
	}
	log := "\n" + p.Log.String()
	line := log[max(strings.LastIndex(log, "\ninstance: "), 0):][1:]
	for _, text := range says {
		if !strings.Contains(line, text) {
			p.t.Errorf("it says %q, want %q in it", line, text)
		}
	}
	if strings.Count(line, "\n") != 1 {
		p.t.Errorf("it says %q, want one line", line)
	}
	p.t.Logf("refused: %s", strings.TrimSpace(line))
}

// status asks the process; the zero status stands for one that does not answer yet.
func (p *process) status() txn.Status {
	ctx, cancel := context.WithTimeout(p.t.Context(), instance.Patience)
	defer cancel()
	s, err := txn.InstanceStatus(ctx, p.dir)
	if err != nil {
		return txn.Status{}
	}
	return s
}

// running says what is missing until n tasks run.
func running(s txn.Status, n int) string {
	ok := len(s.Tasks) == n
	for _, task := range s.Tasks {
		ok = ok && task.State == txn.TaskRunning
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("the tasks are %+v", s.Tasks)
}

// member is an instance as the coordinator describes it.
type member struct {
	minor    byte // of its join data: which build it is
	assigned []int32
}

// The minor versions of the user data (package assign) that the two builds write.
const thisMinor, nextMinor = 3, 4

// upgradeView is the group as the coordinator describes it.
type upgradeView struct {
	state      string
	members    map[string]member // by instance
	plan       string
	generation uint32
	leader     byte // the minor version of the plan: which build made it
}

func (s *upgradeScene) view() upgradeView {
	s.t.Helper()
	groups, err := s.Admin().DescribeGroups(s.t.Context(), s.application)
	group := groups[s.application]
	v := upgradeView{state: group.State, members: map[string]member{}}
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
func (v upgradeView) evenly(tasks int, instances ...string) string {
	ok := v.state == "Stable" && len(v.members) == len(instances)
	for _, instance := range instances {
		ok = ok && len(v.members[instance].assigned) == tasks
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("the group is %+v", v)
}

// settle feeds until the group is at rest with every task.
func (s *upgradeScene) settle(instances []string) (v upgradeView) {
	s.t.Helper()
	s.until("the group to settle", 1, func() string {
		v = s.view()
		return v.evenly(upgradePartitions/len(instances), instances...)
	})
	return v
}

// commits returns what is committed, once all that was fed is.
func (s *upgradeScene) commits() (out []cluster.Commit) {
	s.t.Helper()
	s.until("processing everything", 0, func() (missing string) {
		out = s.committed()
		for p, c := range out {
			if c.Offset < s.fed {
				return fmt.Sprintf("partition %d is at %d of %d", p, c.Offset, s.fed)
			}
		}
		return ""
	})
	return out
}

func (s *upgradeScene) committed() []cluster.Commit {
	s.t.Helper()
	all, err := s.CommittedOffsets(s.t.Context(), s.application, s.in)
	if err != nil {
		s.t.Fatal(err)
	}
	return all[s.in]
}

// byNext reports whether the next build wrote a commit: it has a field at its end that this build
// does not write.
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
func (s *upgradeScene) checkExact() {
	s.t.Helper()
	s.commits()
	want := map[string]int64{}
	for p := range upgradePartitions {
		want[fmt.Sprint("key", p)] = s.fed
	}
	if got := testapp.LastCounts(s.t, s.Records(s.t, s.out)); !maps.Equal(got, want) {
		s.t.Fatalf("the counts are %v, want %v", got, want)
	}
}

// hash stands for the names and the contents of all files below a directory.
func hash(t *testing.T, dir string) [32]byte {
	t.Helper()
	h := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		_, _ = io.WriteString(h, path+"\x00") // never fails
		if d.IsDir() {
			return nil
		}
		data, err := os.ReadFile(path)
		sum := sha256.Sum256(data)
		_, _ = h.Write(sum[:])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return [32]byte(h.Sum(nil))
}
