package queries

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/e2e/leaktest"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
	"github.com/onceward/onceward/topology"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const retention = time.Hour

var (
	plain    = topology.KeyValueStore("plain", schemas.String(), schemas.Int64())
	timed    = topology.TimestampedStore("timed", schemas.Int64(), schemas.String())
	windows  = topology.WindowStore("windows", schemas.String(), schemas.Int64(), retention)
	sessions = topology.SessionStore("sessions", schemas.String(), schemas.Int64(), retention)
	history  = topology.VersionedStore("history", schemas.String(), schemas.JSON[map[string]int](), retention)
	ids      = topology.DedupeStore("ids", schemas.String(), schemas.String(), retention)
)

// scene is a database with a store of each kind, and a server of its views.
type scene struct {
	db       *memstore.Store
	topology *topology.Topology
	layouts  map[string]state.Layout

	released chan struct{} // a word for each view that was closed

	mu   sync.Mutex
	open int // views
	// refuse makes the next views fail.
	refuse error
}

var errRefused = errors.New("the task moves")

func newScene(t *testing.T, many int) *scene {
	t.Helper()
	b := topology.NewBuilder("kinds")
	in := topology.From(b, topology.Topic("in", schemas.String(), schemas.String()))
	topology.Stateful(in, "keep", plain, timed, windows, sessions, history, ids).Process(func(*topology.Setup) (topology.Handler[string, string], error) {
		return func(*topology.Context, topology.Record[string, string]) error { return nil }, nil
	})
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{db: memstore.New(), topology: top, layouts: map[string]state.Layout{}, released: make(chan struct{}, 1000)}
	declared := top.Subtopologies()[0].Declarations()
	for _, d := range declared {
		s.layouts[d.Name] = d.Layout
	}
	task, err := state.NewTask(s.db, declared)
	if err != nil {
		t.Fatal(err)
	}
	task.Mark()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range many {
		must(nil, plain.Open(task.Store("plain")).Put(fmt.Sprintf("k%05d", i), int64(i)))
	}
	must(nil, plain.Open(task.Store("plain")).Put("", 7)) // an empty key is one
	for i := range int64(3) {
		must(nil, timed.Open(task.Store("timed")).Put(i, "text", 1000+i))
		must(windows.Open(task.Store("windows")).Put("a", i*1000, i, i*1000+1))
		must(windows.Open(task.Store("windows")).Put("b", i*1000, 10*i, i*1000+1))
		must(sessions.Open(task.Store("sessions")).Put("a", i*1000, i*1000+500, i))
		must(history.Open(task.Store("history")).Put("a", map[string]int{"n": int(i)}, i*1000))
	}
	_, _, err = ids.Open(task.Store("ids")).PutIfAbsent("id", "", 5) // an empty value is one
	must(nil, err)
	layer, base := task.Freeze(), task.Positions()
	next := base.Clone()
	next.SetInput(state.Input{Topic: "in", Partition: 2, Offset: 9, StreamTime: 2000})
	for _, d := range declared {
		next.SetChangelog(state.Changelog{Store: d.Name, StreamTime: 3000})
	}
	must(nil, task.Apply(layer, base, next))
	task.Retire(layer)
	return s
}

// View is part of Source.
func (s *scene) View(_ context.Context, r Request) (At, state.View, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		return At{}, nil, s.refuse
	}
	view, err := s.db.View()
	if err != nil {
		return At{}, nil, err
	}
	s.open++
	return At{Instance: "one", Partition: r.Partition, Positions: view.Positions(), Member: "m", Revokes: 3}, counted{view, s}, nil
}

// counted is a view that tells its end.
type counted struct {
	state.View
	s *scene
}

func (c counted) Close() error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.open--
	c.s.released <- struct{}{}
	return c.View.Close()
}

// Reason is part of Source.
func (s *scene) Reason(err error) (string, int) {
	if errors.Is(err, errRefused) || errors.Is(err, ErrBusy) {
		return "moves", http.StatusServiceUnavailable
	}
	return "failed", http.StatusInternalServerError
}

// client returns a client of a server that ends with the test.
func (s *scene) client(t *testing.T) *Client {
	t.Helper()
	server := httptest.NewServer(NewServer(s))
	t.Cleanup(server.Close)
	t.Cleanup(server.Client().CloseIdleConnections)
	return &Client{HTTP: server.Client(), URL: server.URL, Failed: func(err error) error { return err }}
}

// store is one store of a view as typed stores want it.
type store struct {
	view state.View
	name string
}

func (s store) Get(key []byte) ([]byte, bool, error) { return s.view.Get(state.IDOf(s.name), key) }
func (s store) Scan(r state.Range) iter.Seq2[state.Entry, error] {
	return s.view.Scan(state.IDOf(s.name), r)
}
func (s store) StreamTime() int64 {
	at, _ := s.view.Positions().Changelog(s.name)
	return at.StreamTime
}
func (store) Advance(int64)         {}
func (store) Put(_, _ []byte) error { return errors.ErrUnsupported }
func (store) Delete([]byte) error   { return errors.ErrUnsupported }

// all reads everything of a store in each way that its kind has.
func all(view state.View, name string) (out []string) {
	b := store{view, name}
	list := func(what string, args ...any) { out = append(out, what+" "+fmt.Sprint(args...)) }
	switch name {
	case "plain":
		s := plain.Open(b)
		for _, key := range []string{"", "k00001", "none"} {
			v, ok, err := s.Get(key)
			list("get", v, ok, err)
		}
		for _, r := range []state.Range{{}, {Reverse: true}, {From: []byte("k00002"), To: []byte("k00004")}, {To: []byte{}}} {
			for p, err := range s.Scan(r) {
				list("scan", p, err)
			}
		}
	case "timed":
		for p, err := range timed.Open(b).All() {
			list("scan", p, err)
		}
		list("get", fmt.Sprint(timed.Open(b).Get(1)))
	case "windows":
		s := windows.Open(b)
		for _, found := range []iter.Seq2[state.WindowEntry[string, int64], error]{
			s.Fetch("a", 0, 1000), s.FetchReverse("a", 0, 5000), s.All(1000, 1000), s.Scan(state.Range{Reverse: true}, 0, 9000),
		} {
			for e, err := range found {
				list("window", e, err)
			}
		}
	case "sessions":
		s := sessions.Open(b)
		for _, found := range []iter.Seq2[state.SessionEntry[string, int64], error]{s.Find("a", 1100, 1200), s.FetchReverse("a"), s.All()} {
			for e, err := range found {
				list("session", e, err)
			}
		}
	case "history":
		s := history.Open(b)
		for _, t := range []int64{-1, 0, 1500, 99_000} {
			list("as of", fmt.Sprint(s.GetAsOf("a", t)))
		}
		for _, found := range []iter.Seq2[state.Version[map[string]int], error]{s.History("a", 0, 9000), s.HistoryReverse("a", 500, 1500)} {
			for e, err := range found {
				list("version", e, err)
			}
		}
	case "ids":
		s := ids.Open(b)
		list("lookup", fmt.Sprint(s.Lookup("id")))
		list("lookup", fmt.Sprint(s.Lookup("none")))
		for e, err := range s.All() {
			list("id", e, err)
		}
	}
	return out
}

// TestRemoteViews: stores of each kind answer at another process as they do in their own, also over
// several parts of a scan, and the view says what it contains.
func TestRemoteViews(t *testing.T) {
	s := newScene(t, 3000)
	client := s.client(t)
	for name := range s.layouts {
		local, err := s.db.View()
		if err != nil {
			t.Fatal(err)
		}
		remote, err := client.Open(t.Context(), Request{Store: name, Partition: 2})
		if err != nil {
			t.Fatal(err)
		}
		want, got := all(local, name), all(remote, name)
		if len(want) < 3 || !slices.Equal(got, want) {
			t.Errorf("%s: %d answers at another process, %d here", name, len(got), len(want))
			for i := range min(len(got), len(want)) {
				if got[i] != want[i] {
					t.Errorf("%s is %q, want %q", name, got[i], want[i])
					break
				}
			}
		}
		if at := remote.At(); !reflect.DeepEqual(at.Positions, local.Positions()) || at.Instance != "one" || at.Partition != 2 || at.Revokes != 3 {
			t.Errorf("%s is at %+v", name, at)
		}
		if _, _, err := remote.Get(state.IDOf("another"), nil); !errors.Is(err, state.ErrUnknownStore) {
			t.Errorf("%s gives rows of another store: %v", name, err)
		}
		_ = local.Close()
		if err := remote.Close(); err != nil {
			t.Error(err)
		}
		if _, _, err := remote.Get(state.IDOf(name), nil); err == nil {
			t.Errorf("%s is read after Close", name)
		}
	}
}

// TestExpectingClient: a client that asks whether the body is wanted reads a view, and is refused, as
// any other one.
func TestExpectingClient(t *testing.T) {
	s := newScene(t, 3)
	client := s.client(t)
	client.Expect = true
	for range 2 {
		v, err := client.Open(t.Context(), Request{Store: "plain"})
		if err != nil {
			t.Fatal(err)
		}
		if _, found, err := v.Get(state.IDOf("plain"), []byte("k00001")); !found || err != nil {
			t.Errorf("the row is found: %t, %v", found, err)
		}
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	}
	s.refuse = errRefused
	_, err := client.Open(t.Context(), Request{Store: "plain"})
	if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Reason != "moves" {
		t.Errorf("refused with %v", err)
	}
}

// TestViewIsOfOneMoment: what is written while a view is open is not in it. The control is the next
// view.
func TestViewIsOfOneMoment(t *testing.T) {
	s := newScene(t, 100)
	client := s.client(t)
	sum := func(v state.View) (n int64) {
		for p, err := range plain.Open(store{v, "plain"}).All() {
			if err != nil {
				t.Fatal(err)
			}
			n += p.Value
		}
		return n
	}
	first, err := client.Open(t.Context(), Request{Store: "plain"})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	before := sum(first)
	base := s.db.Positions()
	next := base.Clone()
	next.SetInput(state.Input{Topic: "in", Partition: 2, Offset: 10, StreamTime: 2000})
	value, _ := schemas.Int64().Append(nil, 1_000_000)
	if err := s.db.Apply(base, next, slices.Values([]state.Write{{Store: state.IDOf("plain"), Key: []byte("k00099"), Value: value}})); err != nil {
		t.Fatal(err)
	}
	if after := sum(first); after != before {
		t.Errorf("the view has changed from %d to %d", before, after)
	}
	second, err := client.Open(t.Context(), Request{Store: "plain"})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if sum(second) == before {
		t.Error("the next view has not changed")
	}
}

// TestViewsAreReleased: by Close, by the end of the context, and by a client that hangs up. Every
// later question fails.
func TestViewsAreReleased(t *testing.T) {
	s := newScene(t, 10)
	client := s.client(t)
	released := func() {
		t.Helper()
		<-s.released
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open != 0 {
			t.Errorf("%d views are open", s.open)
		}
	}
	v, err := client.Open(t.Context(), Request{Store: "plain"})
	if err != nil {
		t.Fatal(err)
	}
	_ = v.Close()
	released()
	ctx, cancel := context.WithCancel(t.Context())
	if v, err = client.Open(ctx, Request{Store: "plain"}); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, _, err := v.Get(state.IDOf("plain"), []byte("k00001")); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("a view whose context has ended answers with %v", err)
	}
	_ = v.Close()
	released()
}

// TestRefusals: a refusal keeps its name, and a server that is busy or gone gives no view.
func TestRefusals(t *testing.T) {
	s := newScene(t, 1)
	client := s.client(t)
	open := func() error {
		v, err := client.Open(t.Context(), Request{Store: "plain"})
		if err == nil {
			_ = v.Close()
		}
		return err
	}
	s.refuse = errRefused
	refusal, ok := errors.AsType[*Refusal](open())
	if !ok || refusal.Reason != "moves" || refusal.Text != errRefused.Error() {
		t.Errorf("refused with %+v", refusal)
	}
	s.refuse = nil
	var views []*View
	for range ViewsMax {
		v, err := client.Open(t.Context(), Request{Store: "plain"})
		if err != nil {
			t.Fatal(err)
		}
		views = append(views, v)
	}
	if err := open(); err == nil || !strings.Contains(err.Error(), ErrBusy.Error()) {
		t.Errorf("view %d is refused with %v", ViewsMax+1, err)
	}
	for _, v := range views {
		_ = v.Close()
	}
	resp, err := client.HTTP.Post(client.URL+"?store=plain&partition=-1", "", strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a partition below zero: %s", resp.Status)
	}
	_ = resp.Body.Close()
	client.URL = "http://127.0.0.1:1"
	if err := open(); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("without a server: %v", err)
	}
}

// TestNoise: what is no question ends the view, and is no answer.
func TestNoise(t *testing.T) {
	s := newScene(t, 1)
	client := s.client(t)
	for _, body := range []string{"{}", `{"get":{"key":5}}`, "\x00\x01", `{"scan":{"rows":-5}}`, `{"future":{}}`} {
		resp, err := client.HTTP.Post(client.URL+"?store=plain&partition=0", "", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil || strings.Contains(string(text), `"found":true`) {
			t.Errorf("%q is answered by %q, %v", body, text, err)
		}
		_ = resp.Body.Close()
	}
}

// TestLongQuestion: a question beyond the bound is refused by the server, which reads no more of it.
// A client does not send it, and its view goes on.
func TestLongQuestion(t *testing.T) {
	s := newScene(t, 1)
	client := s.client(t)
	for _, c := range []struct {
		question string
		refused  bool
	}{
		{`{"get":{"key":"` + strings.Repeat("A", questionMax), true}, // the end never comes
		{`{"get":{"key":"` + strings.Repeat("A", questionMax-100) + `"}}`, false},
	} {
		body, questions := io.Pipe()
		go func() { _, _ = io.WriteString(questions, c.question) }() // ends with the request
		resp, err := client.HTTP.Post(client.URL+"?store=plain&partition=0", "", body)
		if err != nil {
			t.Fatal(err)
		}
		var at At
		var a answer
		in := json.NewDecoder(resp.Body)
		if err := errors.Join(in.Decode(&at), in.Decode(&a)); err != nil {
			t.Fatal(err)
		}
		if refused := a.Refusal != nil && a.Refusal.Text == errLong.Error(); refused != c.refused {
			t.Errorf("a question of %d bytes is answered by %+v", len(c.question), a)
		}
		_ = questions.Close()
		_ = resp.Body.Close()
	}
	v, err := client.Open(t.Context(), Request{Store: "plain"})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if _, _, err := v.Get(state.IDOf("plain"), make([]byte, questionMax)); !errors.Is(err, errLong) {
		t.Errorf("a key that is too long: %v", err)
	}
	if _, found, err := v.Get(state.IDOf("plain"), []byte("k00000")); !found || err != nil {
		t.Errorf("the view goes on with %t, %v", found, err)
	}
}

// TestOtherServers: what is no server of views gives an error with its status. Only a status that
// passes is ErrNoAnswer.
func TestOtherServers(t *testing.T) {
	for status, passes := range map[int]bool{
		http.StatusOK: false, http.StatusUnauthorized: false, http.StatusForbidden: false, http.StatusNotFound: false,
		http.StatusInternalServerError: false, http.StatusTooManyRequests: true, http.StatusBadGateway: true, http.StatusServiceUnavailable: true,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<html>a proxy</html>")
		}))
		client := &Client{HTTP: server.Client(), URL: server.URL, Expect: true, Failed: func(err error) error { return err }}
		_, err := client.Open(t.Context(), Request{Store: "plain"})
		found, other := errors.AsType[*StatusError](err)
		if !other || found.Code != status || errors.Is(err, ErrNoAnswer) != passes {
			t.Errorf("status %d gives %v", status, err)
		}
		server.Client().CloseIdleConnections()
		server.Close()
	}
}

// TestWait: a client gives up a server that is silent after its own bound.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		for _, c := range []struct{ wait, want time.Duration }{{0, AnswerMax}, {time.Second, time.Second}} {
			silent := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			})}
			client := &Client{HTTP: silent, URL: "http://silent", Wait: c.wait, Failed: func(err error) error { return err }}
			if _, err := client.Open(t.Context(), Request{Store: "plain"}); !errors.Is(err, ErrNoAnswer) {
				t.Errorf("a silent server gives %v", err)
			}
			if took := time.Since(began); took != c.want {
				t.Errorf("with a bound of %s it is given up after %s", c.wait, took)
			}
			began = time.Now()
		}
	})
}

// TestLateAnswer: a view whose answer comes when the bound is over is not returned. Its connection is
// cancelled.
func TestLateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}"))}, nil
		})}
		client := &Client{HTTP: slow, URL: "http://slow", Wait: time.Second, Failed: func(err error) error { return err }}
		v, err := client.Open(t.Context(), Request{Store: "plain"})
		if err == nil {
			_ = v.Close()
		}
		if !errors.Is(err, ErrNoAnswer) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a late answer gives %v", err)
		}
	})
}

type roundTripper func(r *http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestDocumentBound: a document has rows up to the bound of its bytes, says that there are more, and
// has one row at least.
func TestDocumentBound(t *testing.T) {
	large := strings.Repeat("x", documentMax/4)
	kinds := newScene(t, 0)
	codecs, _ := kinds.topology.Rows("timed")
	layout := kinds.layouts["timed"]
	for _, c := range []struct {
		values []string
		rows   int
	}{
		{[]string{large, large, large, large, large, large}, 4},
		{[]string{strings.Repeat("x", 2*documentMax), ""}, 1},
		{[]string{"", large}, 2},
	} {
		db := memstore.New()
		task, err := state.NewTask(db, []state.Declaration{{Name: "timed", Layout: layout}})
		if err != nil {
			t.Fatal(err)
		}
		task.Mark()
		for i, v := range c.values {
			if err := timed.Open(task.Store("timed")).Put(int64(i), v, 5); err != nil {
				t.Fatal(err)
			}
		}
		layer, base := task.Freeze(), task.Positions()
		next := base.Clone()
		next.SetInput(state.Input{Topic: "in", Offset: 9})
		next.SetChangelog(state.Changelog{Store: "timed", StreamTime: 5})
		if err := task.Apply(layer, base, next); err != nil {
			t.Fatal(err)
		}
		task.Retire(layer)
		view, err := db.View()
		if err != nil {
			t.Fatal(err)
		}
		q, err := ParseQuestion(Store{Name: "timed", Layout: layout, Rows: codecs}, url.Values{})
		if err != nil {
			t.Fatal(err)
		}
		rows, more, err := q.Rows(store{view, "timed"})
		if err != nil || len(rows) != c.rows || more != (c.rows < len(c.values)) {
			t.Errorf("of %d rows there are %d, more: %t, %v", len(c.values), len(rows), more, err)
		}
		_ = view.Close()
	}
}

// TestRows: each kind of store answers questions in JSON.
func TestRows(t *testing.T) {
	s := newScene(t, 5)
	view, err := s.db.View()
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	for _, c := range []struct{ store, question, want string }{
		{"plain", "key=k00001", `[{"key":"k00001","value":1}]`},
		{"plain", "key=none", `[]`},
		{"plain", "from_key=k00001&to_key=k00003", `[{"key":"k00001","value":1},{"key":"k00002","value":2}]`},
		{"plain", "reverse=true&limit=1", `[{"key":"k00004","value":4}] and more`},
		{"plain", "from=5", `parameters from and to: a keyvalue store has one row for a key`},
		{"plain", "as_of=5&key=a", `parameter as_of: a keyvalue store has no history`},
		{"plain", "limit=0", `parameter limit: "0" is no number between 1 and 10000`},
		{"plain", "key=a&to_key=b", `parameter key: there are from_key or to_key too`},
		{"timed", "key=1", `[{"key":1,"value":"text","time":"1970-01-01T00:00:01.001Z"}]`},
		{"timed", "key=x", `parameter key: the key is no int64 (int64): `},
		{"timed", "from_key=2", `[{"key":2,"value":"text","time":"1970-01-01T00:00:01.002Z"}]`},
		{"windows", "key=a&from=1000&to=1970-01-01T00:00:01Z", `[{"key":"a","value":1,"time":"1970-01-01T00:00:01.001Z","start":"1970-01-01T00:00:01Z"}]`},
		{"windows", "from_key=b&from=2000&reverse=true", `[{"key":"b","value":20,"time":"1970-01-01T00:00:02.001Z","start":"1970-01-01T00:00:02Z"}]`},
		{"windows", "key=a&from=soon", `parameter from: "soon" is neither a time in RFC 3339 nor milliseconds`},
		{"sessions", "key=a&from=1100&to=1200", `[{"key":"a","value":1,"start":"1970-01-01T00:00:01Z","end":"1970-01-01T00:00:01.5Z"}]`},
		{"sessions", "from=2000", `[{"key":"a","value":2,"start":"1970-01-01T00:00:02Z","end":"1970-01-01T00:00:02.5Z"}]`},
		{"history", "key=a", `[{"key":"a","value":{"n":2},"start":"1970-01-01T00:00:02Z"}]`},
		{"history", "key=a&as_of=1500", `[{"key":"a","value":{"n":1},"start":"1970-01-01T00:00:01Z"}]`},
		{"history", "key=a&to=500", `[{"key":"a","value":{"n":0},"start":"1970-01-01T00:00:00Z","end":"1970-01-01T00:00:01Z"}]`},
		{"history", "", `[{"key":"a","value":{"n":2},"start":"1970-01-01T00:00:02Z"}]`},
		{"history", "from=5", `parameters from and to: the history of a versioned store needs a key`},
		{"history", "key=a&as_of=5&from=1", `parameter as_of: it needs a key, and no from or to`},
		{"ids", "key=id", `[{"key":"id","value":"","time":"1970-01-01T00:00:00.005Z"}]`},
		{"ids", "", `[{"key":"id","value":"","time":"1970-01-01T00:00:00.005Z"}]`},
	} {
		codecs, _ := s.topology.Rows(c.store)
		v, err := url.ParseQuery(c.question)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		q, err := ParseQuestion(Store{Name: c.store, Layout: s.layouts[c.store], Rows: codecs}, v)
		if err == nil {
			var rows []json.RawMessage
			var more bool
			if rows, more, err = q.Rows(store{view, c.store}); err == nil {
				text, _ := json.Marshal(rows)
				got = string(text)
				if more {
					got += " and more"
				}
			}
		}
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s?%s answers\n%s, want\n%s", c.store, c.question, got, c.want)
		}
	}
}
