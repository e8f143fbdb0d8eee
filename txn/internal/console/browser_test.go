package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/internal/console"
)

// browser returns the path of Chromium. The test is skipped unless ONCEWARD_REQUIRE_BROWSER is set,
// because `make test` needs Go alone.
func browser(t *testing.T) string {
	t.Helper()
	if os.Getenv("ONCEWARD_REQUIRE_BROWSER") == "" {
		t.Skip("not asked for: make test-console")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("there is no Chromium; install the package chromium")
	return ""
}

// view is what a browser shows of a page after some seconds.
type view struct {
	html string
}

// look opens the page in a browser without a screen. The browser runs its timers without waiting
// for them: virtual is how much time passes for the page. A picture is kept in the directory
// ONCEWARD_PICTURES.
func look(t *testing.T, url string, virtual time.Duration, picture string, flags ...string) view {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	args := append([]string{
		"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
		"--disable-background-networking", "--hide-scrollbars", "--user-data-dir=" + t.TempDir(), "--window-size=1500,2400",
		fmt.Sprintf("--virtual-time-budget=%d", virtual.Milliseconds()),
	}, flags...)
	run := func(more ...string) []byte {
		command := exec.CommandContext(ctx, browser(t), append(append([]string{}, args...), more...)...)
		var complaints strings.Builder
		command.Stderr = &complaints
		out, err := command.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, complaints.String())
		}
		return out
	}
	if dir := os.Getenv("ONCEWARD_PICTURES"); dir != "" {
		run("--screenshot="+filepath.Join(dir, picture+".png"), url)
	}
	return view{string(run("--dump-dom", url))}
}

// section returns the text between the elements of a section.
func (v view) section(id string) string {
	_, rest, _ := strings.Cut(v.html, `<section id="`+id+`"`)
	inside, _, _ := strings.Cut(rest, "</section>")
	var text strings.Builder
	for part := range strings.SplitSeq(inside, "<") {
		_, after, _ := strings.Cut(part, ">")
		text.WriteString(after + " ")
	}
	return text.String()
}

func (v view) expect(t *testing.T, where string, texts ...string) {
	t.Helper()
	shown := v.html
	if where != "" {
		shown = v.section(where)
	}
	for _, text := range texts {
		if !strings.Contains(shown, text) {
			t.Errorf("the page does not show %q in %q, but\n%s", text, where, shown)
		}
	}
}

// expectRate looks for expressions in which %s stands for a rate above zero. The rate itself depends
// on how long the browser takes for an answer.
func (v view) expectRate(t *testing.T, where string, expressions ...string) {
	t.Helper()
	shown := v.section(where)
	for _, e := range expressions {
		if !regexp.MustCompile(fmt.Sprintf(e, `[1-9][\d,.]*/s`)).MatchString(shown) {
			t.Errorf("the page does not show %s in %q, but\n%s", e, where, shown)
		}
	}
}

// orders is a topology with two subtopologies, a store and a global table.
func orders(t *testing.T) graph.Description {
	t.Helper()
	text := schemas.String()
	b := topology.NewBuilder("orders")
	customers := topology.GlobalTableFrom(b, topology.Topic("customers.v1", text, text), topology.TimestampedStore("customers", text, text))
	placed := topology.From(b, topology.Topic("orders.placed.v1", text, text))
	named := topology.JoinGlobalTable(placed, customers, "name-customer",
		func(r topology.Record[string, string]) (topology.Option[string], error) {
			return topology.Some(r.Value), nil
		},
		func(_, order, customer string) (string, error) { return order + customer, nil })
	named.Into(topology.Topic("orders.named.v1", text, text))
	byCity := topology.GroupBy(named, "by-city", text, func(_, city string) (string, error) { return city, nil })
	topology.Count(byCity, topology.TimestampedStore("orders-per-city", text, schemas.Int64())).Into(
		topology.Topic("orders.per-city.v1", text, schemas.Int64()))
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topo.Description()
}

// at is the time of everything in the scenes.
var at = time.Date(2031, 3, 4, 5, 6, 7, 0, time.UTC)

// busy is the status of an instance with everything that a status can have.
func busy() txn.Status {
	lag := int64(1234)
	return txn.Status{
		Application: "orders", Instance: "instance-a", State: txn.Running,
		Tasks: []txn.TaskStatus{
			{
				ID: graph.TaskID{Subtopology: "orders.placed.v1", Partition: 0}, State: txn.TaskRunning, Records: 70000, DeadLetters: 2,
				Inputs: []txn.InputStatus{{Topic: "orders.placed.v1", Offset: 70123, Lag: &lag, StreamTime: at}},
				Retry: &txn.RetryStatus{
					Record: "orders.placed.v1[0]@70123", Attempts: 3, Since: at, Next: at.Add(time.Second), Failure: "the rate service is away",
				},
				Parked: []txn.ParkedStatus{{Topic: "orders.placed.v1", Keys: 2, Records: 5}},
			},
			{
				ID: graph.TaskID{Subtopology: "by-city", Partition: 1}, State: txn.TaskRestoring, Restored: 400_000, Remaining: 600_000,
				RestoreRate: 50_000, RestoreLeft: 12 * time.Second,
				Waits: []txn.WaitStatus{{
					For: "changelog", Topic: "orders-orders-per-city-changelog", Partition: 1, Since: at, HeldBy: "producer 4711, <i>ongoing</i>",
				}},
			},
			{ID: graph.TaskID{Subtopology: "by-city", Partition: 2}, State: txn.TaskStopped, Reason: "the value cannot be decoded"},
		},
		Standbys: []txn.StandbyStatus{
			{
				ID: graph.TaskID{Subtopology: "by-city", Partition: 3}, State: txn.StandbyWarm, Restored: 99_000,
				Inputs: []txn.InputStatus{{Topic: "orders-by-city-repartition", Partition: 3, Offset: 99_001}},
			},
			{ID: graph.TaskID{Subtopology: "by-city", Partition: 4}, State: txn.StandbyFailing, Reason: "the disk is full", Since: at},
		},
		GlobalTables: []txn.GlobalTableStatus{{Store: "customers", Topic: "customers.v1", State: "running", Records: 321, Lag: 7}},
		Totals:       txn.Totals{Records: 70000, Outputs: 140000, DeadLetters: 2, Commits: 900, Aborts: 1},
		Alerts:       []txn.Alert{{Topic: "orders.named.v1", Problem: "missing", Text: "topic orders.named.v1 was deleted", Since: at}},
		Hanging: []txn.HangingStatus{{
			ProducerID: 4711, Epoch: 3, TransactionalID: "orders/instance-b/0/0", Partitions: []string{"orders.named.v1[0]"},
			Verdict: "commit", Reasons: []string{"the coordinator says that it was committed"},
		}},
		PeersAddress: "127.0.0.1:4000",
		Peers: []txn.PeerStatus{
			{Instance: "instance-b", Address: "127.0.0.1:4001", Connected: true},
			{Instance: "instance-c", Address: "127.0.0.1:4002", Why: "connection refused", Suspicion: "one of two watchers has lost it"},
		},
	}
}

// mounted serves the console beside metrics whose counters grow by 100 records and one commit with
// each scrape. gone, if it is not nil, says of each request whether the instance has stopped
// answering.
func mounted(t *testing.T, src console.Source, gone func(*http.Request) bool) string {
	t.Helper()
	var scrapes atomic.Int64
	mux := http.NewServeMux()
	mux.Handle("GET /console/", http.StripPrefix("/console", console.Handler(src)))
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		n := scrapes.Add(1)
		fmt.Fprintf(w, `# HELP onceward_info The process; always 1.
process_start_time_seconds 1.7e+09
onceward_info{application="orders",instance="instance-a",mode="REPLAY"} 1
onceward_records_committed_total{partition="0",task="orders.placed.v1_0",topic="orders.placed.v1"} %d
onceward_outputs_committed_total{task="orders.placed.v1_0"} %d
onceward_rounds_committed_total{worker="0"} %d
onceward_rounds_aborted_total{cause="disk \"full\"",worker="0"} 3
onceward_node_outcomes_total{node="name-customer",outcome="joined",task="orders.placed.v1_0"} %d
onceward_commit_seconds_bucket{le="0.005"} %d
onceward_commit_seconds_bucket{le="0.05"} %d
onceward_commit_seconds_bucket{le="+Inf"} %d
`, 1000*n, 2000*n, 10*n, 1000*n, 60*n, 100*n, 100*n)
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gone != nil && gone(r) {
			http.Error(w, "gone", http.StatusBadGateway)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/console/"
}

func source(t *testing.T, status txn.Status, notReady ...string) console.Source {
	t.Helper()
	return console.Source{
		Topology: orders(t),
		Status:   func() any { return status },
		NotReady: func() []string { return notReady },
		Settings: []console.Setting{{Name: "CommitIntervalMax", Value: "100ms"}},
	}
}

func TestPageShowsEverything(t *testing.T) {
	url := mounted(t, source(t, busy(), "task by-city_2 is stopped: the value cannot be decoded"), nil)
	for _, picture := range []struct {
		name  string
		flags []string
	}{
		{"busy", nil},
		{"busy-dark", []string{"--force-dark-mode", "--blink-settings=preferredColorScheme=0"}},
		{"busy-narrow", []string{"--window-size=500,3600"}},
	} {
		t.Run(picture.name, func(t *testing.T) {
			v := look(t, url, 9*time.Second, picture.name, picture.flags...)
			v.expect(t, "", "<title>orders · Onceward</title>", `<p id="away" role="alert" hidden="">`, "mode REPLAY")
			v.expect(t, "problems", "task by-city_2 is stopped: the value cannot be decoded", "topic orders.named.v1 was deleted",
				"task orders.placed.v1_0 tries orders.placed.v1[0]@70123 again since 2031-03-04 05:06:07Z, 3 times so far: the rate service is away",
				"producer 4711, &lt;i&gt;ongoing&lt;/i&gt;", "the copy of task by-city_4 does not follow: the disk is full")
			v.expect(t, "figures", "1,234", "at most", "5 ms", "50 ms")
			v.expectRate(t, "figures", `records\s+%s\s`, `outputs\s+%s\s`, `commits\s+%s\s`)
			v.expect(t, "topology", "orders.placed.v1: 1 task here", "name-customer", "by-city: 2 tasks here", "orders-per-city", "customers",
				"by-city-repartition")
			v.expectRate(t, "topology", "%s, lag 1,234", "%s outcomes")
			if text := v.section("topology"); strings.Index(text, "by-city: 2") < strings.Index(text, "orders.placed.v1: 1") {
				t.Errorf("by-city stands before the subtopology that feeds it:\n%s", text)
			}
			v.expect(t, "tasks", "orders.placed.v1_0", "70,123", "by-city_1", "400,000 read, 600,000 offsets left, about 12 s",
				"5 records of 2 keys parked in orders.placed.v1", "2031-03-04 05:06:07Z")
			v.expect(t, "globals", "customers.v1", "321")
			v.expect(t, "standbys", "by-city_3", "warm", "99,001", "by-city_4", "failing")
			v.expect(t, "peers", "Other instances dial 127.0.0.1:4000.", "instance-b", "connected", "suspected",
				"one of two watchers has lost it; connection refused")
			v.expect(t, "transactions", "orders/instance-b/0/0", "4711, epoch 3", "orders.named.v1[0]", "commit")
			v.expect(t, "settings", "CommitIntervalMax", "100ms")
		})
	}
}

func TestPageOfAnInstanceWithoutTasks(t *testing.T) {
	status := txn.Status{Application: "orders", Instance: "instance-a", State: txn.Joining, Reason: "the group forms", Tasks: nil}
	v := look(t, mounted(t, source(t, status, "the application is joining: the group forms"), nil), 3*time.Second, "empty")
	v.expect(t, "problems", "the application is joining: the group forms")
	v.expect(t, "tasks", "This instance has no task now.")
	v.expect(t, "standbys", "This instance keeps no copy of another instance’s task.")
	v.expect(t, "peers", "Peers are off.")
	v.expect(t, "transactions", "No transaction hangs.")
	v.expect(t, "topology", "orders.placed.v1: 0 tasks here")
}

// answers returns a function that says that the instance has stopped answering, after so many
// requests of a page. The page and its files are five requests, an answer is two.
func answers(requests int64) func(*http.Request) bool {
	var asked atomic.Int64
	return func(r *http.Request) bool {
		if r.URL.Path == "/console/" {
			asked.Store(0)
		}
		return asked.Add(1) > requests
	}
}

// TestPageWhileTheInstanceIsAway: what the page showed last stays, marked as old.
func TestPageWhileTheInstanceIsAway(t *testing.T) {
	v := look(t, mounted(t, source(t, busy()), answers(5+2*2)), 9*time.Second, "away")
	v.expect(t, "", `<body class="old">`, "No answer from the instance since 20", "What is below is of that time.")
	v.expect(t, "tasks", "orders.placed.v1_0")
}

// TestPageOfAnInstanceThatNeverAnswers: an error is shown from the start.
func TestPageOfAnInstanceThatNeverAnswers(t *testing.T) {
	v := look(t, mounted(t, source(t, busy()), answers(5)), 3*time.Second, "never")
	v.expect(t, "", `<body class="old">`, "No answer from the instance: ", "answers 502.")
}
