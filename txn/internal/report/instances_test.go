package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/e2e/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// group is instances that answer, fail or are frozen. Only the test's goroutine changes it, while no
// question is under way.
type group struct {
	*Instances
	asked   map[string]int
	failing map[string]error
	frozen  map[string]bool
	release chan struct{} // closed when the frozen ones answer
}

// inGroup runs a test on virtual time.
func inGroup(t *testing.T, f func(t *testing.T, g *group)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &group{asked: map[string]int{}, failing: map[string]error{}, frozen: map[string]bool{}, release: make(chan struct{})}
		var one sync.Mutex
		g.Instances = NewInstances(func(ctx context.Context, instance string) (Report, error) {
			one.Lock()
			g.asked[instance]++
			n, err, frozen := g.asked[instance], g.failing[instance], g.frozen[instance]
			one.Unlock()
			if frozen {
				select {
				case <-g.release:
				case <-ctx.Done():
					return Report{}, ctx.Err()
				}
			}
			return Report{Status: fmt.Sprint(instance, n)}, err
		})
		defer g.Close()
		f(t, g)
	})
}

// ask asks, and returns how long that took and each instance by its name.
func (g *group) ask(t *testing.T, names ...string) (took time.Duration, found map[string]Instance) {
	t.Helper()
	began := time.Now()
	found = map[string]Instance{}
	for _, i := range g.Ask(t.Context(), names) {
		found[i.Name] = i
	}
	took = time.Since(began)
	synctest.Wait()
	return took, found
}

// want checks the state of an instance, and its report, which is empty for none.
func want(t *testing.T, found map[string]Instance, name string, state State, status string) {
	t.Helper()
	i := found[name]
	got := ""
	if i.Report != nil {
		got = i.Report.Status.(string)
	}
	if i.State != state || got != status {
		t.Errorf("%s is %s with the report %q (%s), want %s with %q", name, i.State, got, i.Why, state, status)
	}
}

func TestAsk(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		_, found := g.ask(t, "a", "b")
		want(t, found, "a", Answering, "a1")
		want(t, found, "b", Answering, "b1")
		if _, found = g.ask(t, "a"); g.asked["a"] != 1 {
			t.Error("an answer of this moment is asked for again")
		}
		want(t, found, "a", Answering, "a1")
		time.Sleep(answerAge)
		_, found = g.ask(t, "a", "b")
		want(t, found, "a", Answering, "a2")
		if found["a"].Taken != time.Now().UnixMilli() {
			t.Errorf("the report was taken at %d, want %d", found["a"].Taken, time.Now().UnixMilli())
		}
	})
}

// TestFrozenInstance: it holds up the first call only, and for a bounded time. Its last report
// stays, with when it was asked in vain. One question at a time is under way.
func TestFrozenInstance(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		g.ask(t, "a", "b")
		time.Sleep(answerAge)
		g.frozen["b"] = true
		froze := time.Now()
		took, found := g.ask(t, "a", "b")
		if took != waitMax {
			t.Errorf("the page waits %s, want %s", took, waitMax)
		}
		want(t, found, "a", Answering, "a2")
		want(t, found, "b", Answering, "b1") // not for long
		time.Sleep(awayAfter)
		took, found = g.ask(t, "a", "b")
		if took != 0 {
			t.Errorf("the page waits %s for an instance that is away", took)
		}
		want(t, found, "a", Answering, "a3")
		want(t, found, "b", Away, "b1")
		if b := found["b"]; !b.Since.Equal(froze) || b.Why != errSlow.Error() {
			t.Errorf("b is away since %s: %s; want since %s", b.Since, b.Why, froze)
		}
		if g.asked["b"] != 2 {
			t.Errorf("b was asked %d times, want 2", g.asked["b"])
		}
		time.Sleep(questionMax)
		took, found = g.ask(t, "a", "b") // the first question has ended, another begins
		if took != 0 || g.asked["b"] > 3 {
			t.Errorf("the page waits %s, and b was asked %d times", took, g.asked["b"])
		}
		want(t, found, "b", Away, "b1")
		if b := found["b"]; !b.Since.Equal(froze) {
			t.Errorf("b is away since %s, want %s", b.Since, froze)
		}
		close(g.release)
		synctest.Wait()
		_, found = g.ask(t, "a", "b")
		want(t, found, "b", Answering, "b3")
	})
}

func TestFailingInstance(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		g.failing["b"] = errors.New("connection refused")
		_, found := g.ask(t, "a", "b")
		want(t, found, "b", Away, "")
		if b := found["b"]; b.Why != "connection refused" || b.Taken != 0 || !b.Since.Equal(time.Now()) {
			t.Errorf("b is away since %s: %s", b.Since, b.Why)
		}
		delete(g.failing, "b")
		g.ask(t, "a", "b") // it does not wait for the answer
		_, found = g.ask(t, "a", "b")
		want(t, found, "b", Answering, "b2")
		if b := found["b"]; !b.Since.IsZero() || b.Why != "" {
			t.Errorf("b answers, and is away since %s: %s", b.Since, b.Why)
		}
	})
}

// TestInstancesThatLeave: they are shown for a while, without a report, and are not asked. One that
// comes back is as any other.
func TestInstancesThatLeave(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		g.ask(t, "a", "b")
		left := time.Now()
		_, found := g.ask(t, "a")
		want(t, found, "b", Left, "")
		time.Sleep(time.Minute)
		_, found = g.ask(t, "a")
		if b := found["b"]; !b.LeftAt.Equal(left) || g.asked["b"] != 1 {
			t.Errorf("b has left at %s and was asked %d times, want %s and once", b.LeftAt, g.asked["b"], left)
		}
		_, found = g.ask(t, "a", "b")
		want(t, found, "b", Answering, "b2")
		g.ask(t, "a")
		time.Sleep(leftFor)
		if _, found = g.ask(t, "a"); len(found) != 1 {
			t.Errorf("%v are remembered", found)
		}
		for n := range leftMax + 9 {
			g.ask(t, "a", fmt.Sprint("other", n))
		}
		if _, found = g.ask(t, "a"); len(found) != leftMax+1 {
			t.Errorf("%d instances are remembered, want %d", len(found), leftMax+1)
		}
		if _, there := found["other0"]; there {
			t.Error("the one that left first is remembered")
		}
	})
}

// TestClose: the end does not wait for an instance that is frozen.
func TestClose(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		g.frozen["a"] = true
		g.ask(t, "a")
		g.Close()
		if _, found := g.ask(t, "a"); len(found) != 0 {
			t.Errorf("%v answer after the end", found)
		}
	})
}

type status struct{ Name string }

func TestFetch(t *testing.T) {
	said := Report{Status: status{"a"}, NotReady: []string{"why"}, Started: time.UnixMilli(1_900_000_000_000).UTC()}
	server := func(h http.Handler) (*httptest.Server, func() (Report, error)) {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s, func() (Report, error) { return Fetch(t.Context(), s.Client(), s.URL, &status{}) }
	}
	_, fetch := server(Handler(func() Report { return said }))
	got, err := fetch()
	if err != nil {
		t.Fatal(err)
	}
	if name := got.Status.(*status).Name; name != "a" || !reflect.DeepEqual(got.NotReady, said.NotReady) || !got.Started.Equal(said.Started) {
		t.Errorf("the report is %+v of %q, want %+v", got, name, said)
	}
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter)
		want   string
	}{
		"older build": {func(w http.ResponseWriter) { http.Error(w, "what?", http.StatusBadRequest) }, "400"},
		"no report":   {func(w http.ResponseWriter) { fmt.Fprint(w, "hello") }, "cannot be read"},
		"no status":   {func(w http.ResponseWriter) { fmt.Fprint(w, `{"status":null}`) }, "no status"},
		"other shape": {func(w http.ResponseWriter) { fmt.Fprint(w, `{"status":{"Name":1}}`) }, "cannot be read"},
		"too large": {func(w http.ResponseWriter) {
			_ = json.NewEncoder(w).Encode(Report{Status: status{strings.Repeat("x", reportMax)}})
		}, "more than"},
	} {
		_, fetch := server(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { c.answer(w) }))
		if _, err := fetch(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want one with %q", name, err, c.want)
		}
	}
}

// TestOldReport: a report of long ago is no answer of now.
func TestOldReport(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		g.ask(t, "a", "b")
		time.Sleep(time.Hour)
		g.frozen["a"] = true
		asked := time.Now()
		_, found := g.ask(t, "a", "b")
		want(t, found, "a", Away, "a1")
		want(t, found, "b", Answering, "b2") // the control
		if since := found["a"].Since; !since.Equal(asked) {
			t.Errorf("a is away since %s, want %s", since, asked)
		}
		close(g.release)
	})
}

// TestTwoPages: a second call waits for the question of the first.
func TestTwoPages(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		g.frozen["a"] = true
		done := make(chan struct{})
		go func() {
			defer close(done)
			g.Ask(t.Context(), []string{"a"})
		}()
		synctest.Wait()
		time.AfterFunc(waitMax/2, func() { close(g.release) })
		_, found := g.ask(t, "a")
		want(t, found, "a", Answering, "a1")
		<-done
	})
}

// TestOldFailure: a failure of long ago, or of before an instance has left, does not make it away.
func TestOldFailure(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		g.failing["a"], g.failing["b"] = errors.New("failed"), errors.New("failed")
		g.ask(t, "a", "b")
		time.Sleep(time.Second)
		_, found := g.ask(t, "a")
		want(t, found, "a", Away, "")
		delete(g.failing, "b")
		_, found = g.ask(t, "a", "b")
		want(t, found, "b", Answering, "b2")
		time.Sleep(time.Hour)
		delete(g.failing, "a")
		_, found = g.ask(t, "a", "b")
		want(t, found, "a", Answering, fmt.Sprint("a", g.asked["a"]))
	})
}
