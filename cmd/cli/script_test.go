package cli_test

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/cmd/cli"
	"github.com/onceward/onceward/cmd/internal/scripttest"
	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/admin"
)

func TestMain(m *testing.M) {
	run := func(topologies ...*topology.Topology) {
		os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, topologies...))
	}
	testscript.Main(m, map[string]func(){
		"onceward": func() { run() },
		// Programs with one topology of their own, and with two.
		"copier":   func() { run(copyTopology("copier")) },
		"copiers":  func() { run(copyTopology("east"), copyTopology("west")) },
		"joined":   func() { run(joinedTopology()) },
		"keeper":   func() { run(keeperTopology()) },
		"kinds":    func() { run(kindsTopology()) },
		"lossy":    func() { run(lossyTopology()) },
		"audited":  func() { run(auditedTopology()) },
		"chooser":  func() { run(chooserTopology()) },
		"deciding": func() { run(decidingTopology()) },
		"office":   func() { run(officeTopology()) },
		"payer":    func() { run(payerTopology()) },
		"mailroom": func() { run(mailroomTopology()) },
		"hangar":   func() { run(hangarTopology()) },
		"rated":    func() { run(ratedTopology()) },
	})
}

// joinedTopology reads two topics in one task.
func joinedTopology() *topology.Topology {
	b := topology.NewBuilder("joined")
	read := func(name string) topology.Stream[string, string] {
		return topology.From(b, topology.Topic(name, schemas.String(), schemas.String()))
	}
	both := read("east").Merge("both", read("west"))
	both.Into(topology.Topic("out", schemas.String(), schemas.String()))
	return mustBuild(b)
}

// keeperTopology keeps the last value of each key, an integer, and deletes the key for the value
// -1.
func keeperTopology() *topology.Topology {
	b := topology.NewBuilder("keeper")
	in := topology.From(b, topology.Topic("in", schemas.String(), schemas.String()))
	store := topology.KeyValueStore("kept", schemas.String(), schemas.JSON[kept]())
	out := topology.Process(in, "keep", store, func(_ *topology.Context, rows state.KeyValue[string, kept],
		r topology.Record[string, string], out topology.Emit[string, string]) error {
		n, err := strconv.ParseInt(r.Value, 10, 64)
		if err != nil {
			return err
		}
		if n < 0 {
			return rows.Delete(r.Key)
		}
		return rows.Put(r.Key, kept{N: n})
	})
	out.Into(topology.Topic("out", schemas.String(), schemas.String()))
	return mustBuild(b)
}

type kept struct {
	N int64 `json:"n"`
}

func copyTopology(name string) *topology.Topology {
	b := topology.NewBuilder(name)
	in := topology.Topic("in", schemas.String(), schemas.String())
	topology.From(b, in).Into(topology.Topic("out", schemas.String(), schemas.String()))
	return mustBuild(b)
}

func mustBuild(b *topology.Builder) *topology.Topology {
	t, err := b.Build()
	if err != nil {
		panic(err)
	}
	return t
}

func TestScripts(t *testing.T) {
	pipelines, err := filepath.Abs("../pipeline/testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		// [race] skip stands in scripts that start no application: each of their commands is one
		// goroutine, and a process of its own, which the race detector makes slow to start.
		Condition: func(cond string) (bool, error) {
			if cond != "race" {
				return false, fmt.Errorf("unknown condition %q", cond)
			}
			return virtual.RaceDetector, nil
		},
		Setup: func(env *testscript.Env) error {
			env.Values[brokerKey{}] = &broker{}
			env.Setenv("PIPELINES", pipelines)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"kafka":         kafka,
			"stopkafka":     stopKafka,
			"produce":       produce,
			"consume":       consume,
			"topics":        topics,
			"createtopic":   createTopic,
			"deletegroup":   deleteGroup,
			"code":          scripttest.Code,
			"signal":        sendSignal,
			"retry":         retry,
			"scrape":        scrape,
			"tamper":        tamper,
			"append":        appendRecord,
			"drop":          drop,
			"grow":          grow,
			"deadletterids": deadLetterIDs,
			"airplane":      writeAirplane,
			"hang":          hang,
		},
	})
}

// patience is how long a script waits for what has to happen. It only decides how long a failure
// takes to show: on a busy machine it has to outlast the session of 45 s that an application has by
// default, and what comes after it.
const patience = 3 * time.Minute

// kafka starts an embedded broker with the given topics, each topic:partitions, and sets $BROKERS.
// The id of its cluster is cluster-1, and that of the next one cluster-2.
func kafka(ts *testscript.TestScript, _ bool, args []string) {
	b := ts.Value(brokerKey{}).(*broker)
	b.started++
	opts := []kfake.Opt{kfake.NumBrokers(1), kfake.ClusterID(fmt.Sprint("cluster-", b.started))}
	for _, arg := range args {
		name, partitions, _ := strings.Cut(arg, ":")
		n, err := strconv.ParseInt(partitions, 10, 32)
		ts.Check(err)
		opts = append(opts, kfake.SeedTopics(int32(n), name))
	}
	c, err := kfake.NewCluster(opts...)
	ts.Check(err)
	b.Cluster = c
	ts.Defer(func() {
		// A script that failed leaves processes behind, which would wait for a broker that is gone.
		for _, cmd := range ts.BackgroundCmds() {
			_ = cmd.Process.Kill() // it fails for those that have ended
		}
		c.Close()
	})
	ts.Setenv("BROKERS", strings.Join(c.ListenAddrs(), ","))
}

// broker is the embedded broker of a script, the last one that was started.
type broker struct {
	*kfake.Cluster
	started int
	// loses has the markers that hang loses, as topic[partition].
	loses map[string]bool
}

type brokerKey struct{}

// stopKafka takes the broker away.
func stopKafka(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Value(brokerKey{}).(*broker).Close()
}

// createTopic creates a topic on the running cluster: createtopic topic:partitions.
func createTopic(ts *testscript.TestScript, _ bool, args []string) {
	name, partitions, _ := strings.Cut(args[0], ":")
	n, err := strconv.ParseInt(partitions, 10, 32)
	ts.Check(err)
	withAdmin(ts, func(ctx context.Context, adm *kadm.Client) {
		_, err := adm.CreateTopic(ctx, int32(n), 1, nil, name)
		ts.Check(err)
	})
}

// topics prints the topics of the cluster.
func topics(ts *testscript.TestScript, _ bool, _ []string) {
	withAdmin(ts, func(ctx context.Context, adm *kadm.Client) {
		details, err := adm.ListTopics(ctx)
		ts.Check(err)
		for _, name := range details.Names() {
			_, err := fmt.Fprintln(ts.Stdout(), name)
			ts.Check(err)
		}
	})
}

// hang writes a transaction that ends, and of which markers are lost: hang id commit|abort
// topic/partition... A partition with a + before it gets its marker. It sets $TRANSACTION.
func hang(ts *testscript.TestScript, _ bool, args []string) {
	b := ts.Value(brokerKey{}).(*broker)
	cl := func(opts ...kgo.Opt) *kgo.Client {
		cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(ts.Getenv("BROKERS")), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
		ts.Check(err)
		return cl
	}
	if b.loses == nil {
		b.loses = map[string]bool{}
		loser := cl()
		ts.Defer(loser.Close)
		_, err := virtual.LoseMarkers(b.Cluster, loser, func(virtual.End) virtual.Loss {
			return func(topic string, partition int32) bool { return !b.loses[fmt.Sprintf("%s/%d", topic, partition)] }
		})
		ts.Check(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	producer := cl(kgo.TransactionalID(args[0]))
	defer producer.Close()
	ts.Check(producer.BeginTransaction())
	for _, at := range args[2:] {
		at, written := strings.CutPrefix(at, "+")
		b.loses[at] = !written
		topic, number, _ := strings.Cut(at, "/")
		partition, err := strconv.ParseInt(number, 10, 32)
		ts.Check(err)
		r := &kgo.Record{Topic: topic, Partition: int32(partition), Key: []byte("k"), Value: []byte(args[1])}
		ts.Check(producer.ProduceSync(ctx, r).FirstErr())
	}
	id, epoch, err := producer.ProducerID(ctx)
	ts.Check(err)
	ts.Check(producer.EndTransaction(ctx, kgo.TransactionEndTry(args[1] == "commit")))
	ts.Setenv("TRANSACTION", fmt.Sprintf("%d/%d", id, epoch))
}

// grow gives a topic more partitions: grow topic n.
func grow(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	withAdmin(ts, func(ctx context.Context, adm *kadm.Client) {
		resp, err := adm.UpdatePartitions(ctx, n, args[0])
		ts.Check(errors.Join(err, resp.Error()))
	})
}

// deleteGroup deletes a consumer group with its offsets: deletegroup group.
func deleteGroup(ts *testscript.TestScript, _ bool, args []string) {
	withAdmin(ts, func(ctx context.Context, adm *kadm.Client) {
		deleted, err := adm.DeleteGroups(ctx, args[0])
		ts.Check(err)
		ts.Check(deleted.Error())
	})
}

func withAdmin(ts *testscript.TestScript, do func(ctx context.Context, adm *kadm.Client)) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(ts.Getenv("BROKERS")))
	ts.Check(err)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	do(ctx, kadm.NewClient(cl))
}

// produce writes the lines of a file to a topic: produce topic file. A line is a key, a space and a
// value; - is a null key or value. All go to the partition of their key, and those without one to
// partition 0. The timestamps are the present time, or the one of produce -at time topic file.
func produce(ts *testscript.TestScript, _ bool, args []string) {
	var at time.Time
	if args[0] == "-at" {
		var err error
		at, err = time.Parse(time.RFC3339, args[1])
		ts.Check(err)
		args = args[2:]
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(ts.Getenv("BROKERS")), kgo.DefaultProduceTopic(args[0]))
	ts.Check(err)
	defer cl.Close()
	for line := range strings.Lines(ts.ReadFile(args[1])) {
		k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		r := &kgo.Record{Timestamp: at}
		if k != "-" {
			r.Key = []byte(k)
		}
		if v != "-" {
			r.Value = []byte(v)
		}
		ts.Check(cl.ProduceSync(context.Background(), r).FirstErr())
	}
}

// consume prints the committed records of a topic, once there are n: consume topic n. More than n
// are an error. A line is the key and the value; -headers prints the headers whose keys begin with
// the next word instead of the value.
func consume(ts *testscript.TestScript, _ bool, args []string) {
	prefix := ""
	if args[0] == "-headers" {
		prefix, args = args[1], args[2:]
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	cl, err := kgo.NewClient(kgo.SeedBrokers(ts.Getenv("BROKERS")), kgo.ConsumeTopics(args[0]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(50*time.Millisecond))
	ts.Check(err)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var records []*kgo.Record
	for len(records) < n {
		records = append(records, cl.PollFetches(ctx).Records()...)
		if ctx.Err() != nil {
			ts.Fatalf("%s has %d committed records after %s, want %d", args[0], len(records), patience, n)
		}
	}
	if len(records) > n {
		ts.Fatalf("%s has %d committed records, want %d", args[0], len(records), n)
	}
	// Between partitions there is no order.
	slices.SortStableFunc(records, func(a, b *kgo.Record) int { return cmp.Compare(a.Partition, b.Partition) })
	for _, r := range records {
		_, err := fmt.Fprintln(ts.Stdout(), textOf(r.Key), textOrHeaders(r, prefix))
		ts.Check(err)
	}
}

func textOrHeaders(r *kgo.Record, prefix string) string {
	if prefix == "" {
		return textOf(r.Value)
	}
	var texts []string
	for _, h := range r.Headers {
		if strings.HasPrefix(h.Key, prefix) {
			texts = append(texts, h.Key+"="+string(h.Value))
		}
	}
	return strings.Join(texts, " ")
}

// deadLetterIDs sets $LETTER_<key> to the id of the last dead letter of each key: deadletterids
// topic.
func deadLetterIDs(ts *testscript.TestScript, _ bool, args []string) {
	c, err := admin.Connect(context.Background(), ts.Getenv("BROKERS"))
	ts.Check(err)
	defer c.Close()
	all := admin.DeadLetterFilter{Redriven: true}
	_, err = c.DeadLetters(args[0]).Each(context.Background(), all, func(l admin.DeadLetter) error {
		ts.Setenv("LETTER_"+string(l.Key), l.ID)
		return nil
	})
	ts.Check(err)
}

func textOf(b []byte) string {
	if b == nil {
		return "-"
	}
	return string(b)
}

// sendSignal sends SIGTERM to the background command with that number, in the order in which they
// were started: signal 0.
func sendSignal(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	ts.Check(ts.BackgroundCmds()[n].Process.Signal(syscall.SIGTERM))
}

// retry runs a command until it succeeds and its standard output has a text: retry text command...
func retry(ts *testscript.TestScript, _ bool, args []string) {
	deadline := time.Now().Add(patience)
	for {
		cmd := exec.Command(args[1], args[2:]...)
		cmd.Dir = ts.MkAbs(".")
		out, err := cmd.Output()
		if err == nil && strings.Contains(string(out), args[0]) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%q is not printed within %s: %v\n%s", args[0], patience, err, out)
		}
	}
}

// scrape asks a page over a Unix domain socket until it has a text, and prints it: scrape socket
// page text.
func scrape(ts *testscript.TestScript, _ bool, args []string) {
	socket, page, text := ts.MkAbs(args[0]), args[1], args[2]
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	ask := func() (string, error) {
		resp, err := client.Get("http://instance" + page)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
	deadline := time.Now().Add(patience)
	for {
		body, err := ask()
		if err == nil && strings.Contains(body, text) {
			fmt.Fprint(ts.Stdout(), body)
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%q is not served within %s: %v\n%s", text, patience, err, body)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// tamper changes a row behind the back of the changelog: tamper database store key value. The value
// - deletes it. An argument that begins with hex: is bytes.
func tamper(ts *testscript.TestScript, _ bool, args []string) {
	db, err := pebblestore.Open(ts.MkAbs(args[0]), pebblestore.Options{})
	ts.Check(err)
	bytesOf := func(arg string) []byte {
		digits, ok := strings.CutPrefix(arg, "hex:")
		if !ok {
			return []byte(arg)
		}
		b, err := hex.DecodeString(digits)
		ts.Check(err)
		return b
	}
	w := state.Write{Store: state.IDOf(args[1]), Key: bytesOf(args[2]), Value: bytesOf(args[3])}
	if args[3] == "-" {
		w.Value, w.Delete = nil, true
	}
	at := db.Positions()
	ts.Check(errors.Join(db.Apply(at, at, slices.Values([]state.Write{w})), db.Close()))
}

// appendRecord writes a record to partition 0 of a topic, outside of any transaction: append topic
// key value [header=value].
func appendRecord(ts *testscript.TestScript, _ bool, args []string) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(ts.Getenv("BROKERS")), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	ts.Check(err)
	defer cl.Close()
	r := &kgo.Record{Topic: args[0], Key: []byte(args[1]), Value: []byte(args[2])}
	for _, header := range args[3:] {
		key, value, _ := strings.Cut(header, "=")
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: key, Value: []byte(value)})
	}
	ts.Check(cl.ProduceSync(context.Background(), r).FirstErr())
}

// drop deletes a topic, and with a number makes another one of that name and as many partitions:
// drop topic [n].
func drop(ts *testscript.TestScript, _ bool, args []string) {
	withAdmin(ts, func(ctx context.Context, adm *kadm.Client) {
		if _, err := adm.DeleteTopics(ctx, args[0]); err != nil {
			ts.Fatalf("%v", err)
		}
		if len(args) == 1 {
			return
		}
		n, err := strconv.ParseInt(args[1], 10, 32)
		ts.Check(err)
		resp, err := adm.CreateTopic(ctx, int32(n), 1, nil, args[0])
		ts.Check(errors.Join(err, resp.Err))
	})
}
