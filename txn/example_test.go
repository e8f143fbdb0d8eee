package txn_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/security"
)

// words are the input of the examples, totals what they count in.
var (
	words  = topology.Topic("words", schemas.String(), schemas.String())
	counts = topology.Topic("counts", schemas.String(), schemas.Int64())
	totals = topology.KeyValueStore("totals", schemas.String(), schemas.Int64())
)

// counting counts the records of each key. It asks check about each value first, and a value that
// check refuses stops its task.
func counting(check func(value string) error) *topology.Topology {
	b := topology.NewBuilder("counting")
	in := topology.From(b, words)
	topology.Process(in, "count", totals, func(
		c *topology.Context, totals state.KeyValue[string, int64], r topology.Record[string, string], emit topology.Emit[string, int64],
	) error {
		if err := check(r.Value); err != nil {
			return err
		}
		return countRecord(c, totals, r, emit)
	}).Into(counts)
	t, err := b.Build()
	must(err)
	return t
}

func anything(string) error { return nil }

// exampleOf runs a topology on an embedded broker until stop is called. send writes a word and its
// value to a partition.
func exampleOf(t *topology.Topology, partitions int32, cfg txn.Config) (
	app *txn.App, stateDir string, send func(partition int32, word, value string), stop func(),
) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "words", "counts"))
	must(err)
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must(err)
	stateDir, err = os.MkdirTemp("", "onceward-")
	must(err)
	cfg.Brokers, cfg.StateDir, cfg.Logger = broker.ListenAddrs(), stateDir, slog.New(slog.DiscardHandler)
	app, err = txn.New(t, cfg)
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- app.Run(ctx) }()
	send = func(partition int32, word, value string) {
		r := &kgo.Record{Topic: "words", Partition: partition, Key: []byte(word), Value: []byte(value)}
		must(client.ProduceSync(ctx, r).FirstErr())
	}
	return app, stateDir, send, func() {
		cancel()
		must(<-done)
		client.Close()
		broker.Close()
		must(os.RemoveAll(stateDir))
	}
}

// until waits for a condition.
func until(cond func() bool) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		<-tick.C
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// New says every mistake of a configuration at once, before anything is touched.
func ExampleNew() {
	_, err := txn.New(counting(anything), txn.Config{
		Brokers: []string{"localhost"}, StateDir: "state", HTTP: "0.0.0.0:9090",
		Security: security.Config{SASL: security.SASL{Mechanism: security.Plain, User: "counting", PasswordFile: "password"}},
	})
	var mistake *txn.ConfigError
	fmt.Println(errors.As(err, &mistake), mistake.Field)
	fmt.Println(err)
	// Output:
	// true Brokers
	// configuration: Brokers: "localhost" is not host:port
	// configuration: HTTP: "0.0.0.0:9090" can be reached from other machines, and has no authentication: listen on 127.0.0.1 or on unix:/path, and put a reverse proxy with TLS and authentication in front. Or state that every client may see the metrics, with the names of topics, tasks and nodes in them, and the reasons of stopped tasks (HTTPExposed, --http-exposed)
	// configuration: Security.SASL.Mechanism: PLAIN sends the secret itself and the connection is not encrypted: turn TLS on, or use SCRAM
}

// A store is read by the process that runs its task: what is committed, with the position that it
// contains. A caller that has seen a record of the input can wait until a view contains it.
func ExampleRead() {
	app, _, send, stop := exampleOf(counting(anything), 1, txn.Config{})
	defer stop()
	for _, word := range []string{"cat", "dog", "cat"} {
		send(0, word, "")
	}
	until(func() bool { return app.Status().Totals.Records == 3 })
	view, err := txn.Read(app, totals, 0)
	must(err)
	defer view.Close()
	n, _, err := view.Store().Get("cat")
	must(err)
	fmt.Println("cat", n)
	for entry, err := range view.Store().All() {
		must(err)
		fmt.Println(entry.Key, entry.Value)
	}
	fmt.Println("up to offset", view.Positions().Inputs[0].Offset)
	fmt.Println("committed by a round:", !view.Round().IsZero(), "of an owner:", view.Epoch() != txn.Epoch{})
	_, err = txn.Read(app, totals, 7)
	fmt.Println(errors.Is(err, txn.ErrNotServing)) // another instance may have that partition
	// Output:
	// cat 2
	// cat 2
	// dog 1
	// up to offset 3
	// committed by a round: true of an owner: true
	// true
}

// Another program on the machine asks an instance through its state directory, which no other
// process can open.
func ExampleInstanceStatus() {
	app, stateDir, send, stop := exampleOf(counting(anything), 1, txn.Config{Instance: "first"})
	defer stop()
	send(0, "cat", "")
	until(func() bool { return app.Status().Totals.Records == 1 })
	status, err := txn.InstanceStatus(context.Background(), stateDir)
	must(err)
	fmt.Println(status.Application, status.Instance, status.State)
	for _, task := range status.Tasks {
		fmt.Println(task.ID, task.State, task.Inputs[0].Topic, task.Inputs[0].Offset)
	}
	// Output:
	// counting first running
	// words_0 running words 1
}

// The endpoint tells a supervisor whether the process does its share: 200 when it is in the group
// and all its tasks are open.
func ExampleConfig_endpoint() {
	app, _, _, stop := exampleOf(counting(anything), 1, txn.Config{HTTP: "127.0.0.1:0"})
	defer stop()
	until(func() bool { return app.Status().HTTP != "" }) // with the port that was taken
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	until(func() bool {
		resp, err := client.Get("http://" + app.Status().HTTP + "/readyz")
		must(err)
		must(resp.Body.Close())
		return resp.StatusCode == http.StatusOK
	})
	fmt.Println("ready with", len(app.Status().Tasks), "task")
	// Output: ready with 1 task
}

// Two instances keep a copy of each other's state. When one ends, the other one goes on with its
// task at the copy.
func ExampleConfig_standbys() {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "words", "counts"))
	must(err)
	defer broker.Close()
	start := func(name string) (app *txn.App, stop func()) {
		stateDir, err := os.MkdirTemp("", "onceward-")
		must(err)
		app, err = txn.New(counting(anything), txn.Config{
			Brokers: broker.ListenAddrs(), StateDir: stateDir, Instance: name, Standbys: 1, Logger: slog.New(slog.DiscardHandler),
		})
		must(err)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- app.Run(ctx) }()
		return app, func() {
			cancel()
			must(<-done)
			must(os.RemoveAll(stateDir))
		}
	}
	one, stopOne := start("one")
	until(func() bool { return len(one.Status().Tasks) == 1 })
	two, stopTwo := start("two")
	defer stopTwo()
	until(func() bool {
		copies := two.Status().Standbys
		return len(copies) == 1 && copies[0].State == txn.StandbyWarm
	})
	fmt.Println("two has a warm copy of", two.Status().Standbys[0].ID)
	stopOne()
	until(func() bool {
		tasks := two.Status().Tasks
		return len(tasks) == 1 && tasks[0].State == txn.TaskRunning
	})
	fmt.Println("two goes on with", two.Status().Tasks[0].ID)
	// Output:
	// two has a warm copy of words_0
	// two goes on with words_0
}

// A server of the program controls the access to the console, the metrics and the probes. Here they
// are below a path that needs a login.
func ExampleApp_Handler() {
	app, err := txn.New(counting(anything), txn.Config{Brokers: []string{"localhost:9092"}, StateDir: "state"})
	must(err)
	requireLogin := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, _, ok := r.BasicAuth(); !ok {
				http.Error(w, "log in", http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	mux := http.NewServeMux()
	mux.Handle("/onceward/", requireLogin(http.StripPrefix("/onceward", app.Handler())))

	for _, login := range []bool{false, true} {
		r := httptest.NewRequest(http.MethodGet, "/onceward/console/", nil)
		if login {
			r.SetBasicAuth("ann", "secret")
		}
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, r)
		fmt.Println(answer.Code, answer.Header().Get("Content-Type"))
	}
	// Output:
	// 401 text/plain; charset=utf-8
	// 200 text/html; charset=utf-8
}

// Where there is no dead-letter topic, a record that fails stops its task. The others go on, and
// once the cause is put right the task goes on where it was.
func ExampleApp_Resume() {
	var up atomic.Bool
	lookUp := func(value string) error {
		if value == "new" && !up.Load() {
			return errors.New("the directory of words is away")
		}
		return nil
	}
	app, _, send, stop := exampleOf(counting(lookUp), 2, txn.Config{})
	defer stop()
	first := graph.TaskID{Subtopology: "words", Partition: 0}
	isStopped := func() bool {
		tasks := app.Status().Tasks
		return len(tasks) == 2 && tasks[0].State == txn.TaskStopped
	}
	send(0, "cat", "new")
	until(isStopped)
	send(1, "dog", "old")
	until(func() bool { return app.Status().Totals.Records == 1 })
	fmt.Println(first, "is stopped; records of others:", app.Status().Totals.Records)

	up.Store(true)
	must(app.Resume(first))
	until(func() bool { return app.Status().Totals.Records == 2 })
	fmt.Println("all records:", app.Status().Totals.Records)
	// Output:
	// words_0 is stopped; records of others: 1
	// all records: 2
}

// ExamplePermissions prints the permissions that the principal of an application needs on a cluster
// with ACLs.
func ExamplePermissions() {
	for _, p := range txn.Permissions(counting(anything)) {
		fmt.Println(p.Resource, p.Name, p.Operation)
	}
	// Output:
	// Group counting Read
	// TransactionalId counting~ Write
	// Topic words Read
	// Topic words DescribeConfigs
	// Topic counts Write
	// Topic counts DescribeConfigs
	// Topic counting-totals-changelog Create
	// Topic counting-totals-changelog DescribeConfigs
	// Topic counting-totals-changelog Read
	// Topic counting-totals-changelog Write
	// Topic counting-rounds Create
	// Topic counting-rounds DescribeConfigs
	// Topic counting-rounds Read
	// Topic counting-rounds Write
}
