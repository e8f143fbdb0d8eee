package cluster

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

const (
	// logLimit is how much of a log goes into an error, in bytes.
	logLimit = 4 << 10
	// internalPartitions is how many partitions Kafka's own topics get, instead of 50: enough that groups and
	// transactions of one test meet on different ones, few enough that the broker creates them in no time.
	internalPartitions = "4"
	// minSessionTimeout lets a test's group member be declared dead after a second instead of six.
	minSessionTimeout = time.Second
)

// The options of a broker's JVM.
var (
	// asKafka are heap, collector and pause goal of Kafka's own start script, with a smaller start.
	asKafka = []string{"-Xms256m", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"}
	// shortLived are those of Options.ShortLived.
	shortLived = []string{"-Xms256m", "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
)

// kafkaNode is an Apache Kafka on loopback: one broker, which is the controller too or has one beside it.
type kafkaNode struct {
	java string
	jars string
	id   string // cluster id
	dir  *TempDir
	addr string
	// saslAddr is the second listener, empty without one.
	saslAddr string
	jvm      []string // options of the JVM
	life     int      // counts launches; each has log files of its own
	proc     *Process // of the current life, nil before the first
	// controller is nil where the broker is the controller too.
	controller *controller
	gone       <-chan struct{} // closed once the broker of the current life is gone, or its controller
}

// newKafkaNode lays out a broker's directory and formats its storage.
func newKafkaNode(ctx context.Context, o Options) (*kafkaNode, error) {
	if o.SASL && o.SeparateController {
		return nil, errors.New("SASL is for a broker that is its own controller")
	}
	java, err := findJava(ctx)
	if err != nil {
		return nil, err
	}
	jars, err := findJars(ctx)
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	dir, err := NewTempDir(dataKind)
	if err != nil {
		return nil, err
	}
	n := &kafkaNode{java: java, jars: jars, id: newID(), dir: dir, addr: hostPort(ports[0]), jvm: asKafka}
	if o.ShortLived {
		n.jvm = shortLived
	}
	settings := o.Settings
	if o.SASL {
		n.saslAddr = hostPort(ports[2])
		settings = saslSettings(n.addr, hostPort(ports[1]), n.saslAddr)
		maps.Copy(settings, o.Settings)
	}
	config := combinedProperties(n.addr, hostPort(ports[1]))
	if o.SeparateController {
		n.controller = &controller{addr: hostPort(ports[1]), dir: dir}
		config = brokerProperties(n.addr, n.controller.addr)
		err = n.format(ctx, n.controller.configPath(), controllerProperties(n.controller.addr), dir.File("metadata"), o)
	}
	if err == nil {
		o.Settings = settings
		err = n.format(ctx, n.configPath(), config, dir.File("data"), o)
	}
	if err != nil {
		return nil, errors.Join(err, dir.Remove())
	}
	return n, nil
}

// newID returns a random id of a cluster or a directory in Kafka's form: 16 bytes in the URL alphabet of base64.
func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	id[0] &= 0x7f           // the id is a command-line argument and must not start with a dash
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// combinedProperties say that a process is broker and controller.
func combinedProperties(broker, controller string) []string {
	return []string{
		"process.roles=broker,controller",
		"node.id=1",
		"controller.quorum.voters=1@" + controller,
		"inter.broker.listener.name=PLAINTEXT",
		"listeners=PLAINTEXT://" + broker + ",CONTROLLER://" + controller,
		"advertised.listeners=PLAINTEXT://" + broker,
		// A broker that misses its own heartbeats on a busy machine is fenced, and leads nothing for a while. What that does to its
		// coordinators is not what a test is about (see docs/limits.md), and it is only whoever kills a broker who waits for the end of
		// its session.
		"broker.session.timeout.ms=30000",
	}
}

// serverProperties writes a configuration. Where a key comes twice the later one counts, so the caller's settings stand last.
func serverProperties(identity []string, data string, settings map[string]string) string {
	lines := append(slices.Clone(identity),
		"controller.listener.names=CONTROLLER",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"log.dirs="+javaPath(data),

		// A misspelt topic must be an error.
		"auto.create.topics.enable=false",
		"default.replication.factor=1",
		"offsets.topic.replication.factor=1",
		"offsets.topic.num.partitions="+internalPartitions,
		"transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1",
		"transaction.state.log.num.partitions="+internalPartitions,

		// Waits that make sense in production and only make tests slow.
		"group.initial.rebalance.delay.ms=0",
		fmt.Sprintf("group.min.session.timeout.ms=%d", minSessionTimeout.Milliseconds()),
		"transaction.abort.timed.out.transaction.cleanup.interval.ms=1000",
		"log.cleaner.backoff.ms=500",
		"broker.heartbeat.interval.ms=500",

		// A controlled shutdown takes the leadership away from every partition before the transaction coordinator stops. Where there
		// is no other replica, the coordinator then finds no leader for the markers of a transaction whose commit it has already
		// answered, takes the partitions for deleted, and never writes them ("likely deleted already and hence can be skipped", Kafka
		// 4.3.1): committed records stay invisible, or committed offsets vanish. Nothing a client does can help, so stop without it.
		"controlled.shutdown.enable=false",

		// The cleaner is on by default; its 128 MB of buffer are an eighth of the heap.
		"log.cleaner.dedupe.buffer.size=33554432",
	)
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		lines = append(lines, key+"="+settings[key])
	}
	return strings.Join(lines, "\n") + "\n"
}

// saslSettings are the settings of Options.SASL. The principal of the open listeners is ANONYMOUS.
func saslSettings(open, controller, sasl string) map[string]string {
	const module = "org.apache.kafka.common.security."
	return map[string]string{
		"listeners":                      "PLAINTEXT://" + open + ",CONTROLLER://" + controller + ",CLIENT://" + sasl,
		"advertised.listeners":           "PLAINTEXT://" + open + ",CLIENT://" + sasl,
		"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENT:SASL_PLAINTEXT",

		"listener.name.client.sasl.enabled.mechanisms":        "SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
		"listener.name.client.scram-sha-256.sasl.jaas.config": module + "scram.ScramLoginModule required;",
		"listener.name.client.scram-sha-512.sasl.jaas.config": module + "scram.ScramLoginModule required;",
		"listener.name.client.oauthbearer.sasl.jaas.config":   module + "oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"broker\";",

		"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users":           "User:ANONYMOUS",
	}
}

func (n *kafkaNode) configPath() string  { return n.dir.File("server.properties") }
func (n *kafkaNode) logPath() string     { return n.dir.File(fmt.Sprintf("broker-%d.log", n.life)) }
func (n *kafkaNode) consolePath() string { return n.dir.File(fmt.Sprintf("console-%d.log", n.life)) }

func (n *kafkaNode) addrs() []string   { return []string{n.addr} }
func (n *kafkaNode) clusterID() string { return n.id }

func (n *kafkaNode) launch(ctx context.Context) error {
	if err := n.controller.prepare(ctx, n); err != nil {
		return err
	}
	n.life++
	proc, err := n.run(n.jvm, n.configPath(), n.logPath(), n.consolePath())
	if err != nil {
		return err
	}
	n.proc, n.gone = proc, proc.ended
	if n.controller != nil {
		n.gone = eitherEnds(proc, n.controller.proc)
	}
	return nil
}

// run starts one of Kafka's servers.
func (n *kafkaNode) run(jvm []string, config, log, console string) (*Process, error) {
	out, err := os.Create(console)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the child has its own handle
	cmd := exec.Command(n.java, append(slices.Clone(jvm),
		"-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
		"-Dorg.slf4j.simpleLogger.logFile="+log,
		"-cp", classPath(n.jars), "kafka.Kafka", config)...)
	cmd.Dir = n.dir.path // so that a crash report of the JVM lands there
	cmd.Stdout, cmd.Stderr = out, out
	return Launch(cmd)
}

func (n *kafkaNode) ended() <-chan struct{} { return n.gone }

func (n *kafkaNode) cause() error {
	if err := n.controller.cause(); err != nil {
		return err
	}
	return exitCause(n.proc, n.logTail())
}

// exitCause says why a process ended, with the help of the end of its log.
func exitCause(p *Process, log string) error {
	err := errors.New("it exited with status 0")
	if p.err != nil {
		err = p.err
	}
	if strings.Contains(log, "Address already in use") {
		return fmt.Errorf("%w: %w", errPortTaken, err)
	}
	return err
}

func (n *kafkaNode) kill() error { return n.proc.Kill() }
func (n *kafkaNode) stop() error { return n.proc.Terminate(stopGrace) }

func (n *kafkaNode) close() error {
	var err error
	if n.proc != nil {
		err = n.proc.Terminate(stopGrace)
	}
	// In this order: a broker that ends without a controller waits for it.
	if err := errors.Join(err, n.controller.close()); err != nil {
		return err // and keep the directory: its owner is still alive
	}
	return n.dir.Remove()
}

func (n *kafkaNode) logTail() string {
	// The console has what the logger cannot say: a JVM that does not start, a stack dump, an exit by the
	// runtime.
	return strings.TrimSpace(n.controller.logTail() + Tail(n.logPath(), logLimit) + "\n" + Tail(n.consolePath(), logLimit))
}
