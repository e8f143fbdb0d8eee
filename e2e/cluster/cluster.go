package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Kind says which broker is behind a [Cluster].
type Kind string

// The kinds.
const (
	KindEmbedded Kind = "embedded" // kfake, in this process
	KindVirtual  Kind = "virtual"  // kfake on virtual time, on a network with faults: see package virtual
	KindKafka    Kind = "kafka"    // Apache Kafka, in a process of its own or elsewhere
)

// Bounds of the waits. They only decide how long a failure takes to show, so they are generous: a
// machine that runs several test packages at once starts a broker many times more slowly than an
// idle one.
const (
	startTimeout = 2 * time.Minute
	stopGrace    = 20 * time.Second
	probeTimeout = 15 * time.Second
	// settleTimeout covers what follows a killed application: its transaction ends after the
	// transaction timeout, 10 s by Onceward's default, and at the broker's next look at the clock,
	// 10 s by Kafka's default.
	settleTimeout = 45 * time.Second
	pollInterval  = 50 * time.Millisecond
)

// startAttempts bounds how often [Start] tries other ports when somebody took the chosen ones
// first.
const startAttempts = 5

// ErrUnavailable is what [Start] wraps when this machine has nothing to run a real Kafka with. The
// text around it says what is missing.
var ErrUnavailable = errors.New("no real Kafka here")

var (
	errPortTaken = errors.New("the port is taken")
	errShared    = errors.New("all tests of the process share this broker: take one with cluster.Own")
	errExternal  = errors.New("this cluster was not started here: take one with cluster.Own")
)

// Options change what [Start] starts. The zero value is right for most tests.
type Options struct {
	// Own makes Start ignore ONCEWARD_KAFKA_BROKERS, for callers that take the broker down.
	Own bool

	// Settings are broker settings by their Kafka names, stronger than the harness's own, such as
	// "message.max.bytes". The embedded broker knows only some of them. A cluster that is not
	// started here refuses them.
	Settings map[string]string

	// SASL gives a real broker a second listener, [Cluster.SASLBrokers], that wants SCRAM-SHA-256,
	// SCRAM-SHA-512 or OAUTHBEARER (with Kafka's unsigned tokens), and an authorizer that denies
	// what no ACL allows. The other listener stays open, and what comes through it, such as
	// [Cluster.Admin], may do everything: users and ACLs are made through it.
	SASL bool

	// SeparateController gives a real broker a controller in a process of its own, which stays up
	// from Start to Close: Kill, Stop and Resume are about the broker alone. Resume starts it only
	// when the controller has taken the leadership away from it, which is when its session has
	// ended, 6 s after its last heartbeat. From then on it leads once and loads its coordinators
	// once. Without this option a broker leads from the start, by what it last knew, loses the
	// leadership when its old session ends, and gets it again. It does not go with SASL.
	SeparateController bool

	// Brokers is how many real brokers there are, one by default. Several have a controller of
	// their own, as with SeparateController, and replicate every topic to all of them.
	Brokers int

	// Host is the address of this machine that real brokers listen on and advertise, loopback by
	// default.
	Host string

	// ShortLived has the JVM of a real broker compile its code once and fast, instead of again and
	// better while it works. A test has ended before that pays, and the compiler takes the
	// processors from everything else meanwhile. What is measured has to do without it. [Kafka] and
	// [Own] set it.
	ShortLived bool

	// Features are levels of features that a real broker's storage is formatted with, by their
	// names. They are not checked then.
	Features map[string]int16
}

// node is the broker behind a Cluster. All methods but addrs are called with Cluster.mu held.
type node interface {
	// addrs returns host:port of every bootstrap broker; it stays the same over kill and launch.
	addrs() []string
	// clusterID returns the id that the broker must answer with, or "" where any will do.
	clusterID() string
	// launch starts the broker on its ports and data, without waiting for it to answer. The context
	// bounds what has to come before.
	launch(ctx context.Context) error
	// ended is closed when the broker process is gone, or the controller's. It is nil for a broker
	// without a process of its own.
	ended() <-chan struct{}
	// cause says why one of them ended; valid once ended is closed.
	cause() error
	// kill takes the broker down, keeping its data and ports.
	kill() error
	// stop takes it down in order.
	stop() error
	// close stops the broker, if it is up, and removes its data.
	close() error
	// logTail returns the last lines of the broker's log.
	logTail() string
}

// Cluster is a running Kafka cluster. Get one from [Embedded], [Virtual], [Kafka], [Each],
// [Scenario], [Own] or [Start].
type Cluster struct {
	kind   Kind
	node   node
	client *kgo.Client
	admin  *kadm.Client

	// shared is set on the broker that all tests of a process use; its life is not one test's to
	// end.
	shared bool
	// anyFeatures is set where the caller has chosen feature levels.
	anyFeatures bool
	// named counts the names given out on a virtual network.
	named atomic.Uint32

	mu     sync.Mutex // guards node and what follows
	down   bool
	closed bool
}

// Start starts a broker of the given kind, or connects to the cluster that ONCEWARD_KAFKA_BROKERS
// names, and returns when it has created and deleted a topic. The cluster must have
// transaction.version 2, on which Onceward's commit protocol is built. The caller closes it. It is
// for programs that are not tests; tests use [Kafka], [Embedded] or [Own].
//
// The error wraps [ErrUnavailable] if Java or the jars are missing. A first start of the real kind
// downloads about 55 MB.
func Start(ctx context.Context, kind Kind, o Options) (*Cluster, error) {
	for attempt := 1; ; attempt++ {
		c, err := startOnce(ctx, kind, o)
		if err == nil {
			return c, nil
		}
		if errors.Is(err, ErrUnavailable) {
			return nil, fmt.Errorf("cluster: %w", err)
		}
		if !errors.Is(err, errPortTaken) || attempt == startAttempts {
			return nil, fmt.Errorf("cluster: start the %s broker: %w", kind, err)
		}
	}
}

func startOnce(ctx context.Context, kind Kind, o Options) (*Cluster, error) {
	n, err := newNode(ctx, kind, o)
	if err != nil {
		return nil, err
	}
	c := &Cluster{kind: kind, node: n, anyFeatures: len(o.Features) > 0}
	if err := c.open(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func newNode(ctx context.Context, kind Kind, o Options) (node, error) {
	switch kind {
	case KindEmbedded:
		if o.SASL || o.SeparateController || o.Brokers > 1 || o.Host != "" || len(o.Features) > 0 {
			return nil, errors.New("only a real broker has SASL, a controller of its own, others beside it, another host and feature levels here")
		}
		return newEmbeddedNode(o.Settings)
	case KindKafka:
		if !o.Own {
			if n, err := externalFromEnv(o.Settings); n != nil || err != nil {
				return n, err
			}
		}
		return newKafkaNode(ctx, o)
	case KindVirtual:
		return nil, errors.New("brokers on virtual time begin with their test: use Virtual")
	}
	return nil, fmt.Errorf("there is no kind %q", kind)
}

// open launches the node, connects the admin client and waits until the broker works.
func (c *Cluster) open(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.node.launch(ctx); err != nil {
		return err
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.node.addrs()...),
		// The default backoff (250 ms, doubling) suits a production network, not a broker on
		// loopback that will listen any moment now.
		kgo.RetryBackoffFn(func(int) time.Duration { return pollInterval }),
		// The admin client answers from metadata up to this age, and 5 s is the default: a topic
		// that was missing a moment ago would stay so.
		kgo.MetadataMinAge(10 * time.Millisecond),
	}
	if dial := c.Dialer(observer); dial != nil {
		opts = append(opts, kgo.Dialer(dial))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	c.client, c.admin = client, kadm.NewClient(client)
	return c.awaitReady(ctx)
}

// Kind returns which broker this is.
func (c *Cluster) Kind() Kind { return c.kind }

// Brokers returns the bootstrap addresses, host:port each. They stay the same over
// [Cluster.Restart].
func (c *Cluster) Brokers() []string { return c.node.addrs() }

// SASLBrokers returns the bootstrap addresses of the listener that Options.SASL asked for, none
// without it.
func (c *Cluster) SASLBrokers() []string {
	if n, ok := c.node.(*kafkaNode); ok && n.saslAddr != "" {
		return []string{n.saslAddr}
	}
	return nil
}

// PID returns the process of the broker that was started here, for its processor time, and 0 where
// it has none of its own. Restart makes it another one.
func (c *Cluster) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, ok := c.node.(*kafkaNode); ok && n.proc != nil {
		return n.proc.cmd.Process.Pid
	}
	return 0
}

// Admin returns an admin client that lives as long as the cluster; callers do not close it.
func (c *Cluster) Admin() *kadm.Client { return c.admin }

// CreateTopic creates a topic with the broker's default replication and waits until every partition
// has a leader that answers, so that the first client to use it does not start with a retry. A nil
// value in configs is the broker's default.
func (c *Cluster) CreateTopic(
	ctx context.Context, topic string, partitions int32, configs map[string]*string,
) error {
	return c.createTopics(ctx, partitions, configs, topic)
}

func (c *Cluster) createTopics(ctx context.Context, partitions int32, configs map[string]*string, topics ...string) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	created, err := c.admin.CreateTopics(ctx, partitions, -1, configs, topics...)
	if err == nil {
		err = created.Error()
	}
	for _, topic := range topics {
		if err == nil {
			err = await(ctx, func(ctx context.Context) (string, error) { return c.topicPending(ctx, topic, int(partitions)) })
		}
	}
	if err != nil {
		return fmt.Errorf("cluster: create topic %s: %w", strings.Join(topics, ", "), err)
	}
	return nil
}

// topicPending returns what the topic still lacks, or "" once each of its partitions has a leader
// that answers.
func (c *Cluster) topicPending(ctx context.Context, topic string, partitions int) (string, error) {
	md, err := c.admin.Metadata(ctx, topic)
	if err != nil {
		return "", err
	}
	detail := md.Topics[topic]
	if detail.Err != nil {
		return detail.Err.Error(), nil //nolint:nilerr // the topic's error is what is still pending
	}
	led := 0
	for _, p := range detail.Partitions {
		if p.Err == nil && p.Leader >= 0 {
			led++
		}
	}
	if led < partitions {
		return fmt.Sprintf("%d of %d partitions have a leader", led, partitions), nil
	}
	if c.kind != KindKafka {
		return "", nil
	}
	// Kafka tells of a leader before that one knows it.
	listed, err := c.admin.ListEndOffsets(ctx, topic)
	if err == nil {
		err = listed.Error()
	}
	if kerr.IsRetriable(err) {
		return err.Error(), nil
	}
	return "", err
}

// Kill takes the broker down and keeps its data and its address. A real broker gets SIGKILL, so
// what it had not synced is in the page cache, as after a crash of the process. The embedded broker
// lives in this process and has only an orderly close: connections break, and open transactions and
// group members are saved with the rest.
//
// It fails on a broker that other tests share and on a cluster that was not started here.
func (c *Cluster) Kill() error { return c.takeDown("kill", node.kill) }

// Stop is [Cluster.Kill] in order: a real broker gets SIGTERM and writes everything down, and is
// killed after 20 s if it has not ended.
func (c *Cluster) Stop() error { return c.takeDown("stop", node.stop) }

// KillBroker is [Cluster.Kill] of one of several real brokers, counted from 0. Resume brings it
// back.
func (c *Cluster) KillBroker(number int) error {
	return c.takeDown("kill a broker of", func(n node) error {
		k, ok := n.(*kafkaNode)
		if !ok || number >= len(k.servers()) {
			return fmt.Errorf("there is no broker %d", number)
		}
		return k.servers()[number].proc.Kill()
	})
}

func (c *Cluster) takeDown(verb string, down func(node) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.mayStop(); err != nil {
		return fmt.Errorf("cluster: %s: %w", verb, err)
	}
	if c.down {
		return fmt.Errorf("cluster: %s: the broker is down already", verb)
	}
	if err := down(c.node); err != nil {
		return fmt.Errorf("cluster: %s the %s broker: %w", verb, c.kind, err)
	}
	c.down = true
	return nil
}

// Resume starts what [Cluster.Kill], [Cluster.KillBroker] or [Cluster.Stop] took down, on the same
// data and address, and waits until it works.
func (c *Cluster) Resume(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.mayStop(); err != nil {
		return fmt.Errorf("cluster: resume: %w", err)
	}
	if !c.down {
		return errors.New("cluster: resume: the broker is up")
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := c.relaunch(ctx)
		if err == nil {
			return nil
		}
		// Unlike Start this cannot go elsewhere, but whoever holds the port may let it go.
		if !errors.Is(err, errPortTaken) || !pause(ctx) {
			return fmt.Errorf("cluster: resume the %s broker: %w", c.kind, err)
		}
	}
}

// relaunch is one attempt of Resume; after an error the broker is down.
func (c *Cluster) relaunch(ctx context.Context) error {
	if err := c.node.launch(ctx); err != nil {
		return err
	}
	if err := c.awaitReady(ctx); err != nil {
		return errors.Join(err, c.node.kill())
	}
	c.down = false
	return nil
}

// Restart is [Cluster.Kill] and [Cluster.Resume].
func (c *Cluster) Restart(ctx context.Context) error {
	if err := c.Kill(); err != nil {
		return err
	}
	return c.Resume(ctx)
}

// mayStop says whether this broker's life is the caller's to decide about.
func (c *Cluster) mayStop() error {
	switch {
	case c.closed:
		return errors.New("the cluster is closed")
	case c.shared:
		return errShared
	case c.external():
		return errExternal
	}
	return nil
}

// external says whether somebody else runs this cluster.
func (c *Cluster) external() bool {
	_, ok := c.node.(externalNode)
	return ok
}

// Close stops the broker and removes its data; a cluster that was not started here is only
// disconnected from. A second Close does nothing. It fails on the broker that a test process
// shares, which [Main] closes.
func (c *Cluster) Close() error {
	if c.shared {
		return fmt.Errorf("cluster: close: %w", errShared)
	}
	return c.shutdown()
}

func (c *Cluster) shutdown() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	if c.client != nil {
		c.client.Close()
	}
	if err := c.node.close(); err != nil {
		return fmt.Errorf("cluster: close the %s broker: %w", c.kind, err)
	}
	return nil
}

// failure returns an error with the end of the broker's log if the broker ended without being asked
// to.
func (c *Cluster) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down || c.closed {
		return nil
	}
	select {
	case <-c.node.ended():
		return fmt.Errorf("cluster: the %s broker ended: %w", c.kind, c.explain(c.node.cause()))
	default:
		return nil
	}
}

// explain adds the end of the broker's log to err.
func (c *Cluster) explain(err error) error {
	if log := c.node.logTail(); log != "" {
		return fmt.Errorf("%w\nend of the broker's log:\n%s", err, log)
	}
	return err
}

// logTail returns the last lines of the broker's log.
func (c *Cluster) logTail() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.node.logTail()
}
