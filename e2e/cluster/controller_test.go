package cluster

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// loggedLoads are the options of the Java launcher that make the brokers of this package log the
// loads of their group coordinators.
const loggedLoads = "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime=info"

// TestRestartLoadsOnce kills a broker that has a controller of its own process, and one that has
// not, which is the negative control: it leads with the epoch of its last life first, and loads
// __consumer_offsets twice.
func TestRestartLoadsOnce(t *testing.T) {
	t.Parallel()
	// A session longer than a start on a loaded machine, so that a Resume that does not wait for
	// its end is seen.
	settings := map[string]string{"broker.session.timeout.ms": "15000"}
	t.Run("separate=true", func(t *testing.T) {
		t.Parallel()
		c := OwnWith(t, KindKafka, Options{ShortLived: true, SeparateController: true, Settings: settings})
		n := c.node.(*kafkaNode)
		broker, controller := n.proc, n.controller.proc
		testLoads(t, c, true)
		expectEnded(t, "kill: the broker", broker, true)
		if n.proc == broker || n.controller.proc != controller {
			t.Error("not the broker was started again, or the controller was")
		}
		// The broker's processes come and go, the controller's stays until Close.
		expectEnded(t, "resume: the broker", n.proc, false)
		if err := c.Stop(); err != nil {
			t.Fatal(err)
		}
		expectEnded(t, "stop: the broker", n.proc, true)
		expectEnded(t, "stop: the controller", controller, false)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		expectEnded(t, "close: the controller", controller, true)
		expectExists(t, false, n.dir.path)
	})
	t.Run("separate=false", func(t *testing.T) {
		t.Parallel()
		testLoads(t, OwnWith(t, KindKafka, Options{ShortLived: true, Settings: settings}), false)
	})
}

// testLoads restarts a broker and looks at what it loads, once or twice.
func testLoads(t *testing.T, c *Cluster, once bool) {
	t.Helper()
	topic, group := newTopic(t, c, 1), c.Name(t, "group")
	p := newProducer(t, c, c.Name(t, "txn"))
	p.write(true, topic, 0, "before")
	p.end(kgo.TryCommit)
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: 1, LeaderEpoch: -1})
	if err := c.Admin().CommitAllOffsets(t.Context(), group, offsets); err != nil {
		t.Fatal(err)
	}
	before := leaderEpoch(t, c, topic)
	p.ended(c)
	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectCommits(t, c, group, topic, Commit{Offset: 1})
	expectAll(t, c, topic, "before")
	// One step takes the leadership away, the other gives it back.
	if after := leaderEpoch(t, c, topic); after != before+2 {
		t.Errorf("the leader epoch was %d and is %d, want two more", before, after)
	}
	want := []int32{before + 2}
	if !once {
		want = []int32{before, before + 2}
	}
	got := loadEpochs(t, c)
	if len(got) != 4 {
		t.Errorf("the broker has loaded %d partitions of __consumer_offsets: %v", len(got), got)
	}
	for partition, epochs := range got {
		if !slices.Equal(epochs, want) {
			t.Errorf("the restarted broker has loaded %s with the leader epochs %v, want %v", partition, epochs, want)
		}
	}
}

func leaderEpoch(t *testing.T, c *Cluster, topic string) int32 {
	t.Helper()
	md, err := c.Admin().Metadata(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	return md.Topics[topic].Partitions[0].LeaderEpoch
}

var loadLine = regexp.MustCompile(`Scheduling loading of metadata from (__consumer_offsets-\d+) with epoch (\d+)`)

// loadEpochs returns the leader epochs with which the broker's current life has loaded each
// partition of __consumer_offsets, in order.
func loadEpochs(t *testing.T, c *Cluster) map[string][]int32 {
	t.Helper()
	log, err := os.ReadFile(c.node.(*kafkaNode).logPath())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(log), "out of sync") {
		t.Errorf("a coordinator does not fit its log:\n%s", log)
	}
	loads := map[string][]int32{}
	for _, m := range loadLine.FindAllStringSubmatch(string(log), -1) {
		epoch, err := strconv.ParseInt(m[2], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		loads[m[1]] = append(loads[m[1]], int32(epoch))
	}
	return loads
}

// TestDeadControllerIsReported takes the controller away behind the harness's back: it is not
// started again, a broker that is to come back does not wait for it until the end, and the rest can
// be closed.
func TestDeadControllerIsReported(t *testing.T) {
	t.Parallel()
	c := OwnWith(t, KindKafka, Options{ShortLived: true, SeparateController: true})
	n := c.node.(*kafkaNode)
	if err := c.failure(); err != nil {
		t.Fatal(err)
	}
	if err := n.controller.proc.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-n.ended()
	const want = "its controller: signal: killed"
	if err := c.failure(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("without its controller: %v", err)
	}
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := c.Resume(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("resumed without its controller: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	expectEnded(t, "the broker", n.proc, true)
	expectExists(t, false, n.dir.path)
}

// TestTakenControllerPort is TestTakenPort for the controller's.
func TestTakenControllerPort(t *testing.T) {
	t.Parallel()
	requireKafka(t)
	n, err := newNode(t.Context(), KindKafka, Options{Own: true, SeparateController: true})
	if err != nil {
		t.Fatal(err)
	}
	k := n.(*kafkaNode)
	occupy(t, k.controller.addr)
	c := &Cluster{kind: KindKafka, node: n}
	if err := c.open(t.Context()); !errors.Is(err, errPortTaken) {
		t.Errorf("started on a taken port: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	expectEnded(t, "the broker", k.proc, true)
	expectEnded(t, "the controller", k.controller.proc, true)
}

func TestSeparateControllerIsRefused(t *testing.T) {
	for what, refused := range map[string]func() error{
		"an embedded broker": func() error {
			_, err := Start(t.Context(), KindEmbedded, Options{SeparateController: true})
			return err
		},
		"SASL": func() error {
			_, err := Start(t.Context(), KindKafka, Options{Own: true, SASL: true, SeparateController: true})
			return err
		},
	} {
		if refused() == nil {
			t.Errorf("%s has a controller in a process of its own", what)
		}
	}
}

func expectEnded(t *testing.T, what string, p *Process, want bool) {
	t.Helper()
	ended := false
	select {
	case <-p.ended:
		ended = true
	default:
	}
	if ended != want {
		t.Errorf("%s has ended: %t, want %t", what, ended, want)
	}
}
