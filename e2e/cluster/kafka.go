package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// logLimit is how much of a log goes into an error, in bytes.
	logLimit = 4 << 10
	// internalPartitions is how many partitions Kafka's own topics get, instead of 50: enough that
	// groups and transactions of one test meet on different ones, few enough that the broker
	// creates them in no time.
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

// kafkaNode is an Apache Kafka on this machine: one broker, which is the controller too or has one
// beside it, or several with a controller.
type kafkaNode struct {
	java string
	jars string
	id   string // cluster id
	// server is the first broker, or the only one.
	server
	others []*server
	// saslAddr is the second listener, empty without one.
	saslAddr string
	jvm      []string // options of the JVM
	// controller is nil where the broker is the controller too.
	controller *controller
	gone       <-chan struct{} // closed once a broker of the current life is gone, or the controller
}

// server is a broker. It has one life after the other.
type server struct {
	// number is 0 for the first.
	number int
	dir    *TempDir // of the cluster
	addr   string
	life   int      // counts launches; each has log files of its own
	proc   *Process // of the current life, nil before the first
}

// newKafkaNode lays out the brokers' directory and formats their storages.
func newKafkaNode(ctx context.Context, o Options) (*kafkaNode, error) {
	brokers := max(o.Brokers, 1)
	separate := o.SeparateController || brokers > 1
	if o.SASL && separate {
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
	host := cmp.Or(o.Host, loopback)
	ports, err := freePorts(host, brokers)
	if err != nil {
		return nil, err
	}
	more, err := freePorts(loopback, 2)
	if err != nil {
		return nil, err
	}
	dir, err := NewTempDir(dataKind)
	if err != nil {
		return nil, err
	}
	control := hostPort(loopback, more[0])
	n := &kafkaNode{java: java, jars: jars, id: newID(), server: server{dir: dir, addr: hostPort(host, ports[0])}, jvm: asKafka}
	for i := 1; i < brokers; i++ {
		n.others = append(n.others, &server{number: i, dir: dir, addr: hostPort(host, ports[i])})
	}
	if o.ShortLived {
		n.jvm = shortLived
	}
	settings := map[string]string{}
	if brokers > 1 {
		settings = replicated(brokers)
	}
	if o.SASL {
		n.saslAddr = hostPort(loopback, more[1])
		settings = saslSettings(n.addr, control, n.saslAddr)
	}
	maps.Copy(settings, o.Settings)
	o.Settings = settings
	if separate {
		n.controller = &controller{addr: control, dir: dir}
		err = n.format(ctx, n.controller.configPath(), controllerProperties(control), dir.File("metadata"), o)
	}
	for _, s := range n.servers() {
		config := combinedProperties(s.addr, control)
		if separate {
			config = brokerProperties(s.nodeID(), s.addr, control)
		}
		if err == nil {
			err = n.format(ctx, s.configPath(), config, s.file("data"), o)
		}
	}
	if err != nil {
		return nil, errors.Join(err, dir.Remove())
	}
	return n, nil
}

// replicated are the settings of several brokers: everything is on all of them, and one may be
// missing. It is the controller that asks for some of them.
func replicated(brokers int) map[string]string {
	all, least := strconv.Itoa(brokers), strconv.Itoa(brokers-1)
	return map[string]string{
		"default.replication.factor":               all,
		"min.insync.replicas":                      least,
		"offsets.topic.replication.factor":         all,
		"transaction.state.log.replication.factor": all,
		"transaction.state.log.min.isr":            least,
	}
}

// newID returns a random id of a cluster or a directory in Kafka's form: 16 bytes in the URL
// alphabet of base64.
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
		// A broker that misses its own heartbeats on a busy machine is fenced, and leads nothing
		// for a while. The effect on its coordinators is not the subject of a test (see
		// docs/limits.md). Only a test that kills a broker waits for the end of its session.
		"broker.session.timeout.ms=30000",
	}
}

// serverProperties writes a configuration. Where a key comes twice the later one counts, so the
// caller's settings stand last.
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

		// A controlled shutdown takes the leadership away from every partition before the
		// transaction coordinator stops. Without another replica, the coordinator then finds no
		// leader for the markers of a transaction whose commit it has already answered. It takes
		// the partitions for deleted, and never writes the markers (Kafka 4.3.1 logs "likely
		// deleted already"): committed records stay invisible, or committed
		// offsets vanish. A client cannot prevent that, so the broker stops without it.
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

// nodeID is the number of the broker in the cluster; that of a separate controller is 2.
func (s *server) nodeID() int {
	if s.number == 0 {
		return 1
	}
	return separateID + s.number
}

// file returns the path of a file of this broker.
func (s *server) file(name string) string {
	if s.number == 0 {
		return s.dir.File(name)
	}
	return s.dir.File(fmt.Sprintf("broker%d-%s", s.number, name))
}

func (s *server) configPath() string  { return s.file("server.properties") }
func (s *server) logPath() string     { return s.file(fmt.Sprintf("broker-%d.log", s.life)) }
func (s *server) consolePath() string { return s.file(fmt.Sprintf("console-%d.log", s.life)) }

// up says whether the process has been started and has not ended.
func (s *server) up() bool {
	if s.proc == nil {
		return false
	}
	select {
	case <-s.proc.ended:
		return false
	default:
		return true
	}
}

// servers returns all brokers.
func (n *kafkaNode) servers() []*server { return append([]*server{&n.server}, n.others...) }

func (n *kafkaNode) addrs() (all []string) {
	for _, s := range n.servers() {
		all = append(all, s.addr)
	}
	return all
}

func (n *kafkaNode) clusterID() string { return n.id }

// launch starts the brokers that are down.
func (n *kafkaNode) launch(ctx context.Context) error {
	if err := n.controller.prepare(ctx, n); err != nil {
		return err
	}
	var procs []*Process
	for _, s := range n.servers() {
		if !s.up() {
			s.life++
			proc, err := n.run(n.jvm, s.configPath(), s.logPath(), s.consolePath())
			if err != nil {
				return err
			}
			s.proc = proc
		}
		procs = append(procs, s.proc)
	}
	n.gone = procs[0].ended
	if n.controller != nil {
		n.gone = anyEnds(append(procs, n.controller.proc)...)
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
	for _, s := range n.others {
		if !s.up() {
			return fmt.Errorf("broker %d: %w", s.nodeID(), exitCause(s.proc, s.logTail()))
		}
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

func (n *kafkaNode) kill() error { return n.all(func(p *Process) error { return p.Kill() }) }
func (n *kafkaNode) stop() error {
	return n.all(func(p *Process) error { return p.Terminate(stopGrace) })
}

// all does something to every broker that was started.
func (n *kafkaNode) all(what func(*Process) error) error {
	var errs []error
	for _, s := range n.servers() {
		if s.proc != nil {
			errs = append(errs, what(s.proc))
		}
	}
	return errors.Join(errs...)
}

func (n *kafkaNode) close() error {
	// In this order: a broker that ends without a controller waits for it.
	if err := errors.Join(n.stop(), n.controller.close()); err != nil {
		return err // and keep the directory: its owner is still alive
	}
	return n.dir.Remove()
}

func (n *kafkaNode) logTail() string {
	tail := n.controller.logTail()
	for _, s := range n.servers() {
		tail += s.logTail() + "\n"
	}
	return strings.TrimSpace(tail)
}

func (s *server) logTail() string {
	// The console has what the logger cannot say: a JVM that does not start, a stack dump, an exit
	// by the runtime.
	return strings.TrimSpace(Tail(s.logPath(), logLimit) + "\n" + Tail(s.consolePath(), logLimit))
}
