package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/console"
)

// office has dead letters, and notes what it is asked for.
type office struct {
	letters []console.Letter
	err     error
	hold    chan struct{}
	held    chan struct{}

	mu     sync.Mutex
	filter console.LetterFilter
	asked  []string // each request to redrive
}

// redrives returns the requests to redrive.
func (o *office) redrives() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.asked)
}

func (o *office) Newest(_ context.Context, topic string, f console.LetterFilter, most int, content console.ContentFunc) (console.LetterList, error) {
	o.mu.Lock()
	o.filter = f
	o.mu.Unlock()
	if topic != "dead" {
		return console.LetterList{}, fmt.Errorf("topic %q", topic)
	}
	letters := slices.Clone(o.letters)
	for i := range letters {
		if content != nil {
			shown := content("orders.placed.v1", []byte("k1"), []byte("sesame"))
			letters[i].Content = &shown
		}
	}
	return console.LetterList{Letters: letters, More: len(o.letters) > most}, o.err
}

func (o *office) Redrive(_ context.Context, topic string, letters []console.LetterName, dry bool) (out []console.LetterOutcome, err error) {
	if o.hold != nil {
		o.held <- struct{}{}
		<-o.hold
	}
	o.mu.Lock()
	var asked []string
	for _, l := range letters {
		asked = append(asked, fmt.Sprintf("%s %d %d@%d", l.ID, l.Deaths, l.At.Partition, l.At.Offset))
		out = append(out, console.LetterOutcome{LetterName: l, To: "in[0]", Outcome: "redriven"})
	}
	o.asked = append(o.asked, fmt.Sprintf("%s%q dry %t", topic, asked, dry))
	o.mu.Unlock()
	return out, o.err
}

// two dead letters, of which the second was redriven. Their texts are markup.
func twoLetters() []console.Letter {
	redriven := at.Add(-time.Hour)
	letter := console.Letter{
		ID: "orders.placed.v1/0/77", Deaths: 1, Application: "orders", Task: "orders.placed.v1_0", Node: "name-customer", Class: "validation",
		Message: "the <b>customer</b> is missing", Attempts: 3, FirstFailure: at.Add(-time.Minute), LastFailure: at,
		Origin: console.Position{Topic: "orders.placed.v1", Offset: 77}, At: console.Position{Offset: 5}, To: "orders.placed.v1[0]",
	}
	again := letter
	again.ID, again.Deaths, again.Class, again.Message, again.Redriven = "orders.placed.v1/1/8", 2, "poison", "the value cannot be decoded", &redriven
	again.Source = &console.Position{Topic: "orders.v1", Partition: 4, Offset: 12}
	return []console.Letter{letter, again}
}

// lettered is a source with dead letters that writes its log to a buffer.
func lettered(o *office) (console.Source, *bytes.Buffer) {
	var log bytes.Buffer
	src := empty
	src.DeadLetterTopic, src.Letters, src.Actions = "dead", o, true
	src.Logger = slog.New(slog.NewTextHandler(&log, nil))
	return src, &log
}

// do asks a handler, and returns the status and the document of the answer.
func do(t *testing.T, h http.Handler, method, path, body string, headers ...string) (int, map[string]any) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	out := map[string]any{}
	if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
			t.Fatalf("%s answers %q: %v", path, w.Body, err)
		}
	}
	return w.Code, out
}

func TestList(t *testing.T) {
	o := &office{letters: twoLetters()}
	src, _ := lettered(o)
	status, out := do(t, console.Handler(src), http.MethodGet, "/dead-letters?class=poison&source=in&redriven=true", "")
	if want := (console.LetterFilter{Class: graph.Poison, Topic: "in", Redriven: true}); status != http.StatusOK || !reflect.DeepEqual(o.filter, want) {
		t.Errorf("the answer is %d for %+v, want %+v", status, o.filter, want)
	}
	if text := fmt.Sprint(out); !strings.Contains(text, "orders.placed.v1/0/77") || strings.Contains(text, "sesame") || strings.Contains(text, "k1") {
		t.Errorf("the list is %s; it has no content of records", text)
	}
	// With contents, as the control.
	src.Content = func(topic string, key, value []byte) console.Content {
		return console.Content{Key: topic + " " + string(key), Value: string(value)}
	}
	if _, out := do(t, console.Handler(src), http.MethodGet, "/dead-letters", ""); !strings.Contains(fmt.Sprint(out), "key:orders.placed.v1 k1 value:sesame") {
		t.Errorf("the list with contents is %v", out)
	}
}

func TestListThatIsRefused(t *testing.T) {
	o := &office{err: errors.New("the cluster\nis away")}
	src, _ := lettered(o)
	none, closed := src, src
	none.DeadLetterTopic, closed.Letters = "", nil
	for name, c := range map[string]struct {
		src    console.Source
		query  string
		status int
		text   string
	}{
		"no topic":    {none, "", http.StatusNotFound, "no dead-letter topic"},
		"no access":   {closed, "", http.StatusNotFound, "Config.Console"},
		"no class":    {src, "?class=worse", http.StatusBadRequest, "no error class"},
		"the cluster": {src, "", http.StatusBadGateway, "the cluster is away"},
	} {
		if status, out := do(t, console.Handler(c.src), http.MethodGet, "/dead-letters"+c.query, ""); status != c.status || !strings.Contains(fmt.Sprint(out["error"]), c.text) {
			t.Errorf("%s: the answer is %d %v, want %d with %q", name, status, out, c.status, c.text)
		}
	}
}

func TestRedrive(t *testing.T) {
	o := &office{}
	src, log := lettered(o)
	h := console.Handler(src)
	status, out := do(t, h, http.MethodPost, "/dead-letters/redrive", `{"letters":[{"id":"a","deaths":2,"at":{"partition":1,"offset":7}},{"id":"b"}],"dry_run":true}`)
	if status != http.StatusOK || !strings.Contains(fmt.Sprint(out), "deaths:2 id:a outcome:redriven") || log.Len() > 0 {
		t.Errorf("the check answers %d %v, and logs %s", status, out, log)
	}
	if status, out = do(t, h, http.MethodPost, "/dead-letters/redrive", `{"letters":[{"id":"a"},{"id":"b\nlevel=ERROR"}]}`); status != http.StatusOK || out["error"] != nil {
		t.Errorf("the redrive answers %d %v", status, out)
	}
	if want := []string{`dead["a 2 1@7" "b 0 0@0"] dry true`, `dead["a 0 0@0" "b\nlevel=ERROR 0 0@0"] dry false`}; !reflect.DeepEqual(o.redrives(), want) {
		t.Errorf("%q were asked for, want %q", o.redrives(), want)
	}
	for _, text := range []string{"letter=a ", `letter="b level=ERROR"`, "outcome=redriven", "a redrive from the console has ended", "asked_for=2"} {
		if !strings.Contains(log.String(), text) {
			t.Errorf("the log has no %q:\n%s", text, log)
		}
	}
	o.err = errors.New("fenced")
	status, out = do(t, h, http.MethodPost, "/dead-letters/redrive", `{"letters":[{"id":"c"}]}`)
	if status != http.StatusBadGateway || out["error"] != "fenced" || !strings.Contains(fmt.Sprint(out["outcomes"]), "id:c") || !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("a redrive that fails answers %d %v, and logs\n%s", status, out, log)
	}
}

// TestRedriveThatIsRefused: nothing is redriven by a page of another site, without JSON, or where
// actions are not allowed. The last case is the control.
func TestRedriveThatIsRefused(t *testing.T) {
	many := `{"letters":[{}` + strings.Repeat(`,{}`, 100) + `]}`
	for name, c := range map[string]struct {
		body    string
		headers []string
		status  int
		change  func(src *console.Source)
	}{
		"read-only":      {status: http.StatusForbidden, change: func(src *console.Source) { src.Actions = false }},
		"no access":      {status: http.StatusNotFound, change: func(src *console.Source) { src.Letters = nil }},
		"another site":   {status: http.StatusForbidden, headers: []string{"Sec-Fetch-Site", "cross-site"}},
		"another origin": {status: http.StatusForbidden, headers: []string{"Origin", "https://evil.example.org"}},
		"a form":         {status: http.StatusBadRequest, headers: []string{"Content-Type", "text/plain"}},
		"no letter":      {status: http.StatusBadRequest, body: `{"letters":[]}`},
		"too many":       {status: http.StatusBadRequest, body: many},
		"too large":      {status: http.StatusBadRequest, body: `{"letters":[{"id":"` + strings.Repeat("x", 300<<10) + `"}]}`},
		"ids only":       {status: http.StatusBadRequest, body: `{"ids":["a"]}`},
		"no JSON":        {status: http.StatusBadRequest, body: "ids=a"},
		"other fields":   {status: http.StatusBadRequest, body: `{"letters":[{"id":"a"}],"to":"elsewhere"}`},
		"same site":      {status: http.StatusOK, headers: []string{"Sec-Fetch-Site", "same-origin", "Origin", "http://example.com"}},
	} {
		o := &office{}
		src, _ := lettered(o)
		if c.change != nil {
			c.change(&src)
		}
		if c.body == "" {
			c.body = `{"letters":[{"id":"a"}]}`
		}
		status, _ := do(t, console.Handler(src), http.MethodPost, "/dead-letters/redrive", c.body, c.headers...)
		if status != c.status || (status == http.StatusOK) != (len(o.redrives()) == 1) {
			t.Errorf("%s: the answer is %d, want %d; asked for: %q", name, status, c.status, o.redrives())
		}
	}
}

// TestOneRedriveAtATime: a second one is refused while the first is at work.
func TestOneRedriveAtATime(t *testing.T) {
	o := &office{hold: make(chan struct{}), held: make(chan struct{})}
	src, _ := lettered(o)
	h := console.Handler(src)
	first := make(chan int)
	go func() {
		status, _ := do(t, h, http.MethodPost, "/dead-letters/redrive", `{"letters":[{"id":"a"}]}`)
		first <- status
	}()
	<-o.held
	if status, _ := do(t, h, http.MethodPost, "/dead-letters/redrive", `{"letters":[{"id":"a"}]}`); status != http.StatusConflict {
		t.Errorf("the second redrive answers %d", status)
	}
	close(o.hold)
	if status := <-first; status != http.StatusOK {
		t.Errorf("the first redrive answers %d", status)
	}
}

// TestHandlersShareTheirWork: a redrive at one handler of an application holds up one at another, and
// the end of a server waits for it.
func TestHandlersShareTheirWork(t *testing.T) {
	o := &office{hold: make(chan struct{}), held: make(chan struct{})}
	src, _ := lettered(o)
	src.Work = console.NewWork()
	first := make(chan int)
	go func() {
		status, _ := do(t, console.Handler(src), http.MethodPost, "/dead-letters/redrive", `{"letters":[{"id":"a"}]}`)
		first <- status
	}()
	<-o.held
	if status, _ := do(t, console.Handler(src), http.MethodPost, "/dead-letters/redrive", `{"letters":[{"id":"a"}]}`); status != http.StatusConflict {
		t.Errorf("the redrive at another handler answers %d", status)
	}
	src.Work.Wait(time.Millisecond) // has its bound
	ended := make(chan struct{})
	go func() {
		src.Work.Wait(time.Hour)
		close(ended)
	}()
	close(o.hold)
	if status := <-first; status != http.StatusOK {
		t.Errorf("the first redrive answers %d", status)
	}
	<-ended
}
