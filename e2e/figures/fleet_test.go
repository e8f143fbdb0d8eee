package figures

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/onceward/onceward/bench/latency"
	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/txn"
)

// waitMax bounds every wait for the fleet. It only decides how long a failure takes to show.
const waitMax = 3 * time.Minute

// statusPoll is how often instances are asked for their tasks.
const statusPoll = 20 * time.Millisecond

// fleet is some instances of one application under load.
type fleet struct {
	t         *testing.T
	cluster   *cluster.Cluster
	topics    latency.Topics
	instances []*latency.Instance
	load      *latency.Load
	hosts     []*host // as in fleetPlan
	patience  time.Duration
}

// fleetPlan is how a fleet is.
type fleetPlan struct {
	instances  int
	partitions int32
	rate       int
	// state is how many events are processed before the load begins.
	state  int
	common latency.Settings
	// hosts are the network namespaces of the instances; nil where all of them are in the namespace
	// of the test.
	hosts []*host
	// queries makes the instances serve queries.
	queries bool
}

// newFleet starts the instances and the load, and returns when every partition is processed. At the
// end of the test the load is drained and every event counted.
func newFleet(t *testing.T, c *cluster.Cluster, p fleetPlan) *fleet {
	t.Helper()
	f := &fleet{t: t, cluster: c, hosts: p.hosts, patience: waitMax}
	name := c.Name(t, "app")
	f.topics = latency.TopicsOf(name, p.partitions)
	c.CreateTopics(t, p.partitions, f.topics.In, f.topics.Out, f.topics.Dead)
	f.must(f.topics.Create(t.Context(), c.Brokers()))
	f.equip(name, p)
	for _, i := range f.instances {
		f.must(i.Start())
	}
	before := time.Duration(p.state) * time.Second / time.Duration(p.rate)
	var err error
	f.load, err = latency.StartLoadAt(t.Context(), c.Brokers(), f.topics, latency.Schedule{Start: time.Now().Add(-before), Rate: p.rate})
	f.must(err)
	t.Cleanup(func() {
		if err := f.load.Close(); err != nil && !t.Failed() {
			t.Error(err)
		}
	})
	f.patience = waitMax + before
	f.settle()
	f.patience = waitMax
	return f
}

// equip gives the fleet its instances, which are not started yet and end with the test.
func (f *fleet) equip(application string, p fleetPlan) {
	dir := f.t.TempDir()
	for i := range p.instances {
		s := p.common
		s.Brokers, s.Application, s.Topics, s.Instance = f.cluster.Brokers(), application, f.topics, fmt.Sprint("i", i)
		s.StateDir, s.Log = filepath.Join(dir, s.Instance), filepath.Join(dir, s.Instance+".log")
		if p.queries {
			s.Queries = filepath.Join(dir, s.Instance+".queries")
		}
		if p.hosts != nil && s.Peers != "" {
			s.Peers = net.JoinHostPort(p.hosts[i].address, "0")
		}
		instance := latency.NewInstance(s)
		if p.hosts != nil {
			instance.Under = p.hosts[i].enter()
		}
		f.instances = append(f.instances, instance)
	}
	f.t.Cleanup(func() {
		for _, i := range f.instances {
			if err := i.Kill(); err != nil {
				f.t.Error(err)
			}
			if f.t.Failed() {
				f.showLog(i)
			}
		}
	})
}

func (f *fleet) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) showLog(i *latency.Instance) {
	const tail = 8 << 10
	log, err := os.ReadFile(i.Settings.Log)
	if err != nil {
		log = []byte(err.Error())
	}
	f.t.Logf("end of the log of %s:\n%s", i.Settings.Instance, log[max(0, len(log)-tail):])
}

func (f *fleet) wait() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(f.t.Context(), f.patience, errors.New("the fleet takes too long"))
}

// flowing waits until each of the lanes shows an event that was due after the moment.
func (f *fleet) flowing(lanes []int32, after time.Time) map[int32]time.Time {
	f.t.Helper()
	ctx, cancel := f.wait()
	defer cancel()
	first, err := f.load.Reader.AwaitLanes(ctx, lanes, after)
	f.must(err)
	return first
}

func (f *fleet) allLanes() []int32 {
	var lanes []int32
	for p := range f.topics.Partitions {
		lanes = append(lanes, p)
	}
	return lanes
}

// running waits until an instance runs something, which it answers as [running] does: a status can
// be late on a busy machine.
func (f *fleet) running(i *latency.Instance) (lanes []int32, restored int64) {
	f.t.Helper()
	ctx, cancel := f.wait()
	defer cancel()
	for lanes, restored = running(ctx, i); len(lanes) == 0; lanes, restored = running(ctx, i) {
		f.must(i.Ended())
		if ctx.Err() != nil {
			f.t.Fatalf("%s runs nothing: %v", i.Settings.Instance, context.Cause(ctx))
		}
		time.Sleep(statusPoll) // polls
	}
	return lanes, restored
}

// running returns the partitions whose tasks run on an instance, and how many changelog records
// their restores have read.
func running(ctx context.Context, i *latency.Instance) (lanes []int32, restored int64) {
	status, err := i.Status(ctx)
	if err != nil {
		return nil, 0 // not up yet
	}
	for _, task := range status.Tasks {
		if task.State == txn.TaskRunning {
			lanes = append(lanes, task.ID.Partition)
			restored += task.Restored
		}
	}
	return lanes, restored
}

// warmCopies returns how many warm copies of tasks of others an instance keeps.
func warmCopies(ctx context.Context, i *latency.Instance) (warm int) {
	status, err := i.Status(ctx)
	if err != nil {
		return 0 // not up yet
	}
	for _, c := range status.Standbys {
		if c.State == txn.StandbyWarm {
			warm++
		}
	}
	return warm
}

// settle waits until every instance runs its even share of the tasks, every task has its warm
// copies, and every partition shows output.
func (f *fleet) settle() {
	f.t.Helper()
	ctx, cancel := f.wait()
	defer cancel()
	tick := time.NewTicker(statusPoll)
	defer tick.Stop()
	share := int(f.topics.Partitions) / len(f.instances)
	for {
		owned, even, warm := map[int32]bool{}, true, 0
		for _, i := range f.instances {
			f.must(i.Ended())
			lanes, _ := running(ctx, i)
			even = even && len(lanes) >= share
			warm += warmCopies(ctx, i)
			for _, lane := range lanes {
				owned[lane] = true
			}
		}
		copies := f.instances[0].Settings.Standbys * int(f.topics.Partitions)
		if even && len(owned) == int(f.topics.Partitions) && warm == copies {
			break
		}
		select {
		case <-ctx.Done():
			f.t.Fatalf("the tasks are not shared evenly: %v", context.Cause(ctx))
		case <-tick.C:
		}
	}
	f.flowing(f.allLanes(), time.Now())
}

// finish stops load and instances, and asserts that every event came, once, and that it is in the
// sums once. It returns how many there were.
func (f *fleet) finish() (sent uint64, found latency.Anomalies) {
	f.t.Helper()
	f.must(f.load.StopSending())
	sent = f.load.Producer.Sent()
	came := f.load.Await(f.t.Context(), sent)
	ctx, cancel := f.wait()
	defer cancel()
	leave := kadm.LeaveGroup(f.instances[0].Settings.Application)
	for _, i := range f.instances {
		f.must(i.Stop(ctx))
		leave.InstanceIDs(i.Settings.Instance)
	}
	if f.instances[0].Settings.Remain {
		// The group of a cluster that goes on could not be deleted before the sessions end.
		_, err := f.cluster.Admin().LeaveGroup(ctx, leave)
		f.must(err)
	}
	// Nothing is written any more: what would come twice has come.
	ends, err := f.cluster.EndOffsets(ctx, f.topics.Out)
	f.must(err)
	f.must(f.load.Reader.AwaitOffsets(ctx, ends))
	f.must(f.load.Stop())
	if found = f.load.Reader.Anomalies(sent); found != (latency.Anomalies{}) {
		f.t.Errorf("of %d events, %d are lost, %d outputs are doubled, and %d have a wrong sum (%v)", sent, found.Lost, found.Doubled,
			found.Wrong, came)
	} else {
		f.must(came)
	}
	return sent, found
}

// bounds returns the earliest and the latest of moments by lane.
func bounds(byLane map[int32]time.Time) (first, last time.Time) {
	moments := make([]time.Time, 0, len(byLane))
	for _, at := range byLane {
		moments = append(moments, at)
	}
	slices.SortFunc(moments, time.Time.Compare)
	return moments[0], moments[len(moments)-1]
}
