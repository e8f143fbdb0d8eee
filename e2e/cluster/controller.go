package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// controller is the process of Options.SeparateController. It has one life, from the first launch
// of its broker to the node's close. A broker that is its own controller has a nil one, which needs
// no starting and never ends.
type controller struct {
	addr string
	dir  *TempDir
	proc *Process // nil before the launch
}

// separateSession is the session of a broker that is there to be killed. It may not come back
// before its old session has ended, 9 s by default. Not shorter than this either: a broker that
// misses its heartbeats on a busy machine is fenced.
const separateSession = "broker.session.timeout.ms=6000"

// separateID is the number of a separate controller in the cluster.
const separateID = 2

// controllerProperties say that a process is a controller.
func controllerProperties(addr string) []string {
	return []string{
		"process.roles=controller",
		fmt.Sprint("node.id=", separateID),
		fmt.Sprintf("controller.quorum.voters=%d@%s", separateID, addr),
		"listeners=CONTROLLER://" + addr,
		separateSession,
	}
}

// brokerProperties say that a process is a broker whose controller is elsewhere.
func brokerProperties(id int, broker, controller string) []string {
	return []string{
		"process.roles=broker",
		fmt.Sprint("node.id=", id),
		fmt.Sprintf("controller.quorum.voters=%d@%s", separateID, controller),
		"inter.broker.listener.name=PLAINTEXT",
		"listeners=PLAINTEXT://" + broker,
		"advertised.listeners=PLAINTEXT://" + broker,
		separateSession,
	}
}

func (c *controller) configPath() string  { return c.dir.File("controller.properties") }
func (c *controller) logPath() string     { return c.dir.File("controller.log") }
func (c *controller) consolePath() string { return c.dir.File("controller-console.log") }

// prepare does what has to come before a launch of the broker. Before the first it starts the
// controller. Before the others it waits until the controller has fenced the life before: a broker
// that starts earlier believes what it finds, that it is the leader of everything. A controller
// that has ended is not started again, because that would hide it. Where there are several brokers
// the others lead meanwhile, and the controller keeps one out until its last session has ended.
func (c *controller) prepare(ctx context.Context, n *kafkaNode) (err error) {
	if c == nil {
		return nil
	}
	if c.proc == nil {
		// The metadata of a test's few topics is small, and nobody waits for the pauses of a small
		// heap.
		c.proc, err = n.run([]string{"-Xms32m", "-Xmx256m", "-XX:+UseSerialGC"}, c.configPath(), c.logPath(), c.consolePath())
		return err
	}
	if len(n.others) > 0 {
		return c.cause()
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.addr))
	if err != nil {
		return err
	}
	defer client.Close()
	err = await(ctx, func(ctx context.Context) (string, error) {
		if err := c.cause(); err != nil {
			return "", err
		}
		return c.unfenced(ctx, client.SeedBrokers()[0])
	})
	if err != nil {
		return fmt.Errorf("the end of its last session: %w", err)
	}
	return nil
}

// unfenced returns "" once the controller has fenced the only broker. Controllers do not describe
// brokers to clients, but where all are fenced there is no place for a topic. That is asked for
// only, not made.
func (c *controller) unfenced(ctx context.Context, at *kgo.Broker) (waiting string, err error) {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = uniqueName("onceward-probe"), 1, 1
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics, req.ValidateOnly = append(req.Topics, topic), true
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	resp, err := req.RequestWith(ctx, at)
	if err != nil {
		return err.Error(), nil // a controller that is up answers sooner or later
	}
	for _, t := range resp.Topics {
		err = kerr.ErrorForCode(t.ErrorCode)
	}
	switch {
	case err == nil:
		return "the controller takes the broker for alive", nil
	case errors.Is(err, kerr.InvalidReplicationFactor):
		return "", nil
	default:
		return err.Error(), nil
	}
}

// anyEnds returns a channel that is closed once one of the processes is gone. Its goroutines live
// no longer than the first of them.
func anyEnds(processes ...*Process) <-chan struct{} {
	ended := make(chan struct{})
	var once sync.Once
	for _, p := range processes {
		go func() {
			select {
			case <-p.ended:
				once.Do(func() { close(ended) })
			case <-ended:
			}
		}()
	}
	return ended
}

// cause says why the controller ended, nil if it did not.
func (c *controller) cause() error {
	if c == nil || c.proc == nil {
		return nil
	}
	select {
	case <-c.proc.ended:
		return fmt.Errorf("its controller: %w", exitCause(c.proc, c.logTail()))
	default:
		return nil
	}
}

func (c *controller) close() error {
	if c == nil || c.proc == nil {
		return nil
	}
	if err := c.proc.Terminate(stopGrace); err != nil {
		return fmt.Errorf("end its controller: %w", err)
	}
	return nil
}

// logTail returns the last lines of the controller's log, "" where there is no controller.
func (c *controller) logTail() string {
	if c == nil {
		return ""
	}
	tail := strings.TrimSpace(Tail(c.logPath(), logLimit) + "\n" + Tail(c.consolePath(), logLimit))
	if tail == "" {
		return ""
	}
	return "controller:\n" + tail + "\nbroker:\n"
}
