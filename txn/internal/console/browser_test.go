package console_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/internal/console"
	"github.com/onceward/onceward/txn/internal/metrics"
	"github.com/onceward/onceward/txn/internal/report"
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

// second is the status of an instance that has tasks only.
func second() txn.Status {
	lag := int64(10)
	return txn.Status{
		Application: "orders", Instance: "instance-b", State: txn.Running,
		Tasks: []txn.TaskStatus{{
			ID: graph.TaskID{Subtopology: "orders.placed.v1", Partition: 1}, State: txn.TaskRunning, Records: 500,
			Inputs: []txn.InputStatus{{Topic: "orders.placed.v1", Partition: 1, Offset: 501, Lag: &lag, StreamTime: at}},
		}},
		Standbys: []txn.StandbyStatus{{
			ID: graph.TaskID{Subtopology: "by-city", Partition: 2}, State: txn.StandbyRestoring, Restored: 100, Remaining: 300,
		}},
		Totals:       txn.Totals{Records: 500, Outputs: 1000, Commits: 9},
		PeersAddress: "127.0.0.1:4001",
		Peers:        []txn.PeerStatus{{Instance: "instance-a", Address: "127.0.0.1:4000", Connected: true}},
	}
}

// grown is the n-th report of an instance, two seconds after the one before. Since then each task
// has processed 1,000 records, and its node as many outcomes. There were 100 commits, of which 60
// took at most 5 ms, and all at most 50 ms.
func grown(status txn.Status, n int64, notReady ...string) *report.Report {
	status.Totals.Records += 1000 * n * int64(len(status.Tasks))
	status.Totals.Outputs += 2000 * n
	status.Totals.Commits += 100 * n
	counts := metrics.Counts{
		CommitSeconds: []metrics.Bucket{{Bound: 0.005, Count: uint64(60 * n)}, {Bound: 0.05, Count: uint64(100 * n)}}, Commits: uint64(100 * n),
		Outcomes: []metrics.OutcomeCount{{Subtopology: "orders.placed.v1", Node: "name-customer", Count: float64(1000 * n)}},
	}
	for _, t := range status.Tasks {
		for _, in := range t.Inputs {
			counts.Records = append(counts.Records, metrics.RecordCount{Task: t.ID.String(), Topic: in.Topic, Count: float64(1000 * n)})
		}
	}
	return &report.Report{Status: status, NotReady: notReady, Counts: counts, Started: at}
}

// here is an instance that serves the page and knows no other one.
func here(status txn.Status, alone string, notReady ...string) func(n int64) console.Group {
	return func(n int64) console.Group {
		return console.Group{Self: status.Instance, Alone: alone, Instances: []report.Instance{
			{Name: status.Instance, State: report.Here, Taken: at.UnixMilli() + 2000*n, Report: grown(status, n, notReady...)},
		}}
	}
}

// several are an instance that serves the page, one that answers, one that is away and one that has
// left. A task of the one that is away is to move.
func several(n int64) console.Group {
	away := second()
	away.Instance, away.Totals.Records = "instance-c", 1_000_000
	away.Tasks[0].ID.Partition, away.Tasks[0].Records = 2, 777_000
	g := here(busy(), "", "task by-city_2 is stopped: the value cannot be decoded")(n)
	g.Instances = append(g.Instances,
		report.Instance{Name: "instance-b", State: report.Answering, Taken: at.UnixMilli() + 2000*n, Report: grown(second(), n)},
		report.Instance{
			Name: "instance-c", State: report.Away, Since: at.Add(-time.Minute), Why: "the instance cannot be <b>reached</b>",
			Taken: at.Add(-2 * time.Minute).UnixMilli(), Report: grown(away, 1),
		},
		report.Instance{Name: "instance-d", State: report.Left, LeftAt: at.Add(-time.Hour)})
	for p, instance := range []string{"instance-a", "instance-b", "instance-c"} {
		g.Planned = append(g.Planned, console.PlannedTask{Task: graph.TaskID{Subtopology: "orders.placed.v1", Partition: int32(p)}, Instance: instance})
	}
	g.Planned[2].To = "instance-b"
	return g
}

// mounted serves the console of a group that is asked for again and again. gone, if it is not nil,
// says of each request whether the instance has stopped answering.
func mounted(t *testing.T, group func(n int64) console.Group, gone func(*http.Request) bool) string {
	t.Helper()
	var asked atomic.Int64
	mux := http.NewServeMux()
	mux.Handle("GET /console/", http.StripPrefix("/console", console.Handler(console.Source{
		Topology: orders(t), Group: func(context.Context) console.Group { return group(asked.Add(1)) },
		Settings: []console.Setting{{Name: "CommitIntervalMax", Value: "100ms"}, {Name: "Mode", Value: "REPLAY"}},
	})))
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

// pictures are the windows in which a page with everything is looked at.
var pictures = []struct {
	name  string
	flags []string
}{
	{"", nil},
	{"-dark", []string{"--force-dark-mode", "--blink-settings=preferredColorScheme=0"}},
	{"-narrow", []string{"--window-size=500,3600"}},
}

func TestPageShowsEverything(t *testing.T) {
	url := mounted(t, here(busy(), "", "task by-city_2 is stopped: the value cannot be decoded"), nil)
	v := look(t, url, 9*time.Second, "busy")
	v.expect(t, "", "<title>orders · Onceward</title>", `<p id="away" role="alert" hidden="">`, "mode REPLAY")
	v.expect(t, "problems", "task by-city_2 is stopped: the value cannot be decoded", "topic orders.named.v1 was deleted",
		"task orders.placed.v1_0 tries orders.placed.v1[0]@70123 again since 2031-03-04 05:06:07Z, 3 times so far: the rate service is away",
		"producer 4711, &lt;i&gt;ongoing&lt;/i&gt;", "the copy of task by-city_4 does not follow: the disk is full")
	v.expect(t, "instances", "instance-a (serves this page)", "1 running, 1 restoring, 1 stopped", "1 warm, 1 failing", "dialled at 127.0.0.1:4000")
	v.expect(t, "figures", "1,234", "at most", "5 ms", "50 ms", "1,500/s", "1,000/s", "50/s")
	v.expect(t, "topology", "orders.placed.v1: 1 task at 1 instance", "name-customer", "by-city: 2 tasks at 1 instance", "orders-per-city", "customers",
		"by-city-repartition", "500/s, lag 1,234", "500/s outcomes")
	if text := v.section("topology"); strings.Index(text, "by-city: 2") < strings.Index(text, "orders.placed.v1: 1") {
		t.Errorf("by-city stands before the subtopology that feeds it:\n%s", text)
	}
	v.expect(t, "tasks", "orders.placed.v1_0", "70,123", "by-city_1", "400,000 read, 600,000 offsets left, about 12 s",
		"5 records of 2 keys parked in orders.placed.v1", "2031-03-04 05:06:07Z")
	v.expect(t, "globals", "customers.v1", "321")
	v.expect(t, "standbys", "by-city_3", "warm", "99,001", "by-city_4", "failing")
	v.expect(t, "peers", "instance-b", "connected", "suspected", "one of two watchers has lost it; connection refused")
	v.expect(t, "transactions", "orders/instance-b/0/0", "4711, epoch 3", "orders.named.v1[0]", "commit")
	v.expect(t, "settings", "CommitIntervalMax", "100ms")
}

// TestPageOfSeveralInstances: the page has what all instances report, and sums of those that answer.
// Of one that is away it says since when, and which tasks the plan gives it.
func TestPageOfSeveralInstances(t *testing.T) {
	url := mounted(t, several, nil)
	for _, picture := range pictures {
		t.Run("several"+picture.name, func(t *testing.T) {
			v := look(t, url, 9*time.Second, "several"+picture.name, picture.flags...)
			v.expect(t, "", "instance-a · 2 of 3 instances answer")
			v.expect(t, "problems", "task by-city_2 is stopped: the value cannot be decoded (instance-a)",
				"instance instance-c does not answer since 2031-03-04 05:05:07Z: the instance cannot be &lt;b&gt;reached&lt;/b&gt;")
			v.expect(t, "instances", "instance-b", "dialled at 127.0.0.1:4001", "1 restoring", "1 by the plan",
				"no answer since 2031-03-04 05:05:07Z: the instance cannot be", "the last one came 2031-03-04 05:04:07Z",
				"instance-d", "not in the plan of the group since 2031-03-04 04:06:07Z")
			v.expect(t, "figures", "1,244", "2,000/s", "100/s", "5 ms", "50 ms", "Without instance-c, which does not answer.")
			v.expect(t, "topology", "orders.placed.v1: 3 tasks at 2 instances, 1 of them not known", "1,000/s, lag 1,244", "1,000/s outcomes",
				"by-city: 2 tasks at 1 instance")
			v.expect(t, "tasks", "orders.placed.v1_1", "501", "orders.placed.v1_2", "unknown",
				"by the plan of the group; the instance does not answer", "is to move to instance-b")
			v.expect(t, "standbys", "by-city_2", "restoring", "300")
			v.expect(t, "peers", "127.0.0.1:4002", "127.0.0.1:4000")
			v.expect(t, "settings", "Of instance-a, which serves this page.")
			if text := v.section("tasks"); strings.Contains(text, "777,000") {
				t.Errorf("the page shows what an instance said that is away:\n%s", text)
			}
		})
	}
}

func TestPageOfAnInstanceWithoutTasks(t *testing.T) {
	status := txn.Status{Application: "orders", Instance: "instance-a", State: txn.Joining, Reason: "the group forms", Tasks: nil}
	v := look(t, mounted(t, here(status, "Peers are off.", "the application is joining: the group forms"), nil), 3*time.Second, "empty")
	v.expect(t, "problems", "the application is joining: the group forms")
	v.expect(t, "instances", "instance-a (serves this page)", "joining", "Peers are off. This page shows one instance.")
	v.expect(t, "tasks", "This instance has no task now.")
	v.expect(t, "standbys", "This instance keeps no copy of another instance’s task.")
	v.expect(t, "peers", "Peers are off.")
	v.expect(t, "transactions", "No transaction hangs.")
	v.expect(t, "topology", "orders.placed.v1: 0 tasks here")
}

// answers returns a function that says that the instance has stopped answering, after so many
// answers to a page. The page and its files are eight requests.
func answers(n int64) func(*http.Request) bool {
	var asked atomic.Int64
	return func(r *http.Request) bool {
		if r.URL.Path == "/console/" {
			asked.Store(0)
		}
		return asked.Add(1) > 8+n
	}
}

// TestPageWhileTheInstanceIsAway: what the page showed last stays, marked as old.
func TestPageWhileTheInstanceIsAway(t *testing.T) {
	v := look(t, mounted(t, several, answers(2)), 9*time.Second, "away")
	v.expect(t, "", `<body class="old">`, "No answer from the instance since 20", "What is below is of that time.")
	v.expect(t, "tasks", "orders.placed.v1_0")
}

// TestPageOfAnInstanceThatNeverAnswers: an error is shown from the start.
func TestPageOfAnInstanceThatNeverAnswers(t *testing.T) {
	v := look(t, mounted(t, several, answers(0)), 3*time.Second, "never")
	v.expect(t, "", `<body class="old">`, "No answer from the instance: ", "answers 502.")
}

// scripted serves the console of a source with a script that acts as a person does.
func scripted(t *testing.T, change func(src *console.Source), script string) string {
	t.Helper()
	var asked atomic.Int64
	src := console.Source{
		Topology: orders(t), DeadLetterTopic: "dead", Logger: slog.New(slog.DiscardHandler),
		Group: func(context.Context) console.Group { return several(asked.Add(1)) },
	}
	change(&src)
	h := http.StripPrefix("/console", console.Handler(src))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/console/act.js":
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, script)
		case "/console/":
			page := httptest.NewRecorder()
			h.ServeHTTP(page, r)
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Header().Set("Content-Security-Policy", page.Header().Get("Content-Security-Policy"))
			fmt.Fprint(w, strings.Replace(page.Body.String(), "</head>", `<script type="module" src="act.js"></script></head>`, 1))
		default:
			h.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL + "/console/"
}

// tall is a window that has the whole page.
const tall = "--window-size=1500,3000"

func TestPageOfDeadLetters(t *testing.T) {
	url := scripted(t, func(src *console.Source) { src.Letters, src.Actions = &office{letters: twoLetters()}, true }, "")
	for _, picture := range pictures {
		t.Run("letters"+picture.name, func(t *testing.T) {
			v := look(t, url, 5*time.Second, "letters"+picture.name, append([]string{tall}, picture.flags...)...)
			v.expect(t, "letters", "of dead", "orders.placed.v1/0/77", "the &lt;b&gt;customer&lt;/b&gt; is missing", "validation", "3 times",
				"orders.placed.v1[0]@77", "waiting", "orders.placed.v1/1/8", "redriven", "2031-03-04 04:06:07Z", "died 2 times", "of orders.v1[4]@12",
				"Redrive the chosen ones")
			if strings.Contains(v.html, "sesame") {
				t.Error("the page shows the content of a record")
			}
			if n := strings.Count(v.html, `type="checkbox" value="0@`); n != 1 {
				t.Errorf("%d letters can be chosen, want the one that waits", n)
			}
		})
	}
}

func TestPageWithContents(t *testing.T) {
	v := look(t, scripted(t, func(src *console.Source) {
		src.Letters = &office{letters: twoLetters()}
		src.Content = func(_ string, key, value []byte) console.Content {
			return console.Content{Key: string(key), Value: string(value)}
		}
	}, ""), 5*time.Second, "letters-contents", tall)
	v.expect(t, "letters", "k1", "sesame")
	if strings.Contains(v.html, "Redrive the chosen") || strings.Contains(v.html, `type="checkbox" value="0@`) {
		t.Error("a page that is read-only offers a redrive")
	}
}

// wait is a part of a script that waits for an element.
const wait = `
const wait = (find) => new Promise((found) => {
  const timer = setInterval(() => { const e = find(); if (e) { clearInterval(timer); found(e); } }, 50);
});
`

// choose is a script that chooses the first dead letter and presses a button.
const choose = wait + `
const box = await wait(() => document.querySelector('#letters label input[value^="0@"]'));
box.click();
document.querySelectorAll('#letters .act')[%d].click();
`

func TestPageRedrives(t *testing.T) {
	for button, want := range []string{"would be redriven, in[0]", "redriven, in[0]"} {
		o := &office{letters: twoLetters()}
		v := look(t, scripted(t, func(src *console.Source) { src.Letters, src.Actions = o, true }, fmt.Sprintf(choose, button)), 5*time.Second,
			fmt.Sprint("letters-act", button), tall)
		v.expect(t, "letters", "orders.placed.v1/0/77: "+want, []string{"Nothing was written.", "Done."}[button])
		for _, asked := range o.redrives() {
			if asked != fmt.Sprintf(`dead["orders.placed.v1/0/77 1 0@5"] dry %t`, button == 0) {
				t.Errorf("the page asks for %q", asked)
			}
		}
		if len(o.redrives()) == 0 {
			t.Error("the page asks for nothing")
		}
	}
}

func TestPageWithoutDeadLetters(t *testing.T) {
	for name, c := range map[string]struct {
		change func(src *console.Source)
		want   string
	}{
		"none":      {func(src *console.Source) { src.Letters = &office{} }, "There is no such dead letter."},
		"no topic":  {func(src *console.Source) { src.DeadLetterTopic = "" }, "The topology has no dead-letter topic."},
		"no access": {func(*console.Source) {}, "This program gives the console no access to dead letters"},
		"away":      {func(src *console.Source) { src.Letters = &office{err: errors.New("no broker answers")} }, "The dead letters cannot be listed: no broker answers"},
	} {
		t.Run(name, func(t *testing.T) {
			look(t, scripted(t, c.change, ""), 3*time.Second, "letters-"+strings.ReplaceAll(name, " ", "-"), tall).expect(t, "letters", c.want)
		})
	}
}

// lookUp is a script that asks for a row.
const lookUp = wait + `
await wait(() => document.querySelector('#row-question option'));
const form = document.getElementById('row-question');
form.elements.key.value = 'a/b&c';
form.elements.partition.value = '3';
form.querySelector('button').click();
`

func TestPageOfARow(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		answer string
		want   []string
	}{
		"row": {
			http.StatusOK, `{"store":"orders per city","partition":3,"instance":"instance-b","position":{"round":"r-7","inputs":[{"topic":"in","partition":3,"offset":12}]},
				"rows":[{"key":"a/b&c","value":"{\"city\":\"<b>Bern</b>\",\"id\":9007199254740993}","time":"2031-03-04T05:06:07Z"}],"standby_age":"2s"}`,
			[]string{"a/b&amp;c", `{"city":"&lt;b&gt;Bern&lt;/b&gt;","id":9007199254740993}`, "2031-03-04 05:06:07Z", "Partition 3, read at instance-b, from a copy that was at the last commit 2s ago, after round r-7.",
				"It contains in[3] below offset 12."},
		},
		"no row": {
			http.StatusOK, `{"store":"orders per city","partition":3,"instance":"instance-a","position":{"inputs":[]},"rows":[]}`,
			[]string{"There is no row under this key.", "Partition 3, read at instance-a."},
		},
		"away": {
			http.StatusServiceUnavailable, `{"reason":"not-serving","text":"instance instance-b: the instance cannot be reached"}`,
			[]string{"The row cannot be shown: instance instance-b: the instance cannot be reached"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Value
			v := look(t, scripted(t, func(src *console.Source) {
				src.Stores = []string{"orders per city"}
				src.Rows = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					asked.Store(r.PathValue("store") + ": " + r.URL.Query().Encode())
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(c.status)
					fmt.Fprint(w, c.answer)
				})
			}, lookUp), 4*time.Second, "row-"+strings.ReplaceAll(name, " ", "-"), tall)
			v.expect(t, "row", c.want...)
			if want := "orders per city: key=a%2Fb%26c&partition=3"; asked.Load() != want {
				t.Errorf("the page asks for %v, want %s", asked.Load(), want)
			}
		})
	}
	look(t, scripted(t, func(*console.Source) {}, ""), 3*time.Second, "row-not-allowed", tall).expect(t, "row", "Rows are not shown: the program does not allow it")
}
