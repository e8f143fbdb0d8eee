package console_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/onceward/onceward/txn/internal/console"
	"github.com/onceward/onceward/txn/internal/report"
)

// empty is an instance that has just been created.
var empty = console.Source{Group: func(context.Context) console.Group {
	return console.Group{Alone: "why", Instances: []report.Instance{{State: report.Here, Report: &report.Report{}}}}
}}

func TestHandlerServesOnlyItsFiles(t *testing.T) {
	for _, c := range []struct {
		method, path string
		status       int
		content      string
	}{
		{http.MethodGet, "/", http.StatusOK, "text/html; charset=utf-8"},
		{http.MethodGet, "/console.js", http.StatusOK, "text/javascript; charset=utf-8"},
		{http.MethodGet, "/drawing.js", http.StatusOK, "text/javascript; charset=utf-8"},
		{http.MethodGet, "/elements.js", http.StatusOK, "text/javascript; charset=utf-8"},
		{http.MethodGet, "/letters.js", http.StatusOK, "text/javascript; charset=utf-8"},
		{http.MethodGet, "/row.js", http.StatusOK, "text/javascript; charset=utf-8"},
		{http.MethodGet, "/rates.js", http.StatusOK, "text/javascript; charset=utf-8"},
		{http.MethodGet, "/console.css", http.StatusOK, "text/css; charset=utf-8"},
		{http.MethodGet, "/data", http.StatusOK, "application/json"},
		{http.MethodGet, "/console.go", http.StatusNotFound, "text/plain; charset=utf-8"},
		{http.MethodGet, "/../console.go", http.StatusTemporaryRedirect, "text/html; charset=utf-8"},
		{http.MethodPost, "/data", http.StatusMethodNotAllowed, "text/plain; charset=utf-8"},
		{http.MethodDelete, "/", http.StatusMethodNotAllowed, "text/plain; charset=utf-8"},
	} {
		t.Run(c.method+c.path, func(t *testing.T) {
			answer := httptest.NewRecorder()
			console.Handler(empty).ServeHTTP(answer, httptest.NewRequest(c.method, c.path, nil))
			if answer.Code != c.status || answer.Header().Get("Content-Type") != c.content {
				t.Errorf("the answer is %d with %q, want %d with %q", answer.Code, answer.Header().Get("Content-Type"), c.status, c.content)
			}
			if policy := answer.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") {
				t.Errorf("the policy is %q, which allows other places", policy)
			}
		})
	}
}

func TestDocumentOfAnEmptyInstance(t *testing.T) {
	answer := httptest.NewRecorder()
	console.Handler(empty).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/data", nil))
	var got struct {
		Instance  *string
		Alone     string
		Instances []struct{ State string }
		Topology  *struct{}
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
		t.Fatalf("the document is %s: %v", answer.Body, err)
	}
	if got.Instance == nil || got.Alone != "why" || len(got.Instances) != 1 || got.Instances[0].State != "here" || got.Topology == nil {
		t.Errorf("the document is %s", answer.Body)
	}
}

// TestRows: rows are served only where that is allowed, and only under a key.
func TestRows(t *testing.T) {
	allowed := empty
	allowed.Rows = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, bounded := r.Context().Deadline(); !bounded {
			t.Error("a lookup has no bound")
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"of": r.PathValue("store") + " " + r.URL.Query().Get("key")})
	})
	for name, c := range map[string]struct {
		src    console.Source
		path   string
		status int
		of     any
	}{
		"by default": {empty, "/rows/counts?key=a", http.StatusForbidden, nil},
		"allowed":    {allowed, "/rows/counts?key=a", http.StatusOK, "counts a"},
		"no key":     {allowed, "/rows/counts?partition=0", http.StatusBadRequest, nil},
	} {
		if status, out := do(t, console.Handler(c.src), http.MethodGet, c.path, ""); status != c.status || out["of"] != c.of {
			t.Errorf("%s: the answer is %d %v, want %d %v", name, status, out, c.status, c.of)
		}
	}
}

// TestOtherSites: a page of another site cannot have data read. The page itself and other programs
// can, as the control.
func TestOtherSites(t *testing.T) {
	src, _ := lettered(&office{})
	src.Rows = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for site, want := range map[string]int{
		"cross-site": http.StatusForbidden, "same-site": http.StatusForbidden, "same-origin": http.StatusOK, "none": http.StatusOK, "": http.StatusOK,
	} {
		for _, path := range []string{"/data", "/dead-letters", "/rows/counts?key=a"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			if site != "" {
				r.Header.Set("Sec-Fetch-Site", site)
			}
			w := httptest.NewRecorder()
			console.Handler(src).ServeHTTP(w, r)
			if policy := w.Header().Get("Cross-Origin-Resource-Policy"); w.Code != want || policy != "same-origin" {
				t.Errorf("%s from %q answers %d with %q, want %d", path, site, w.Code, policy, want)
			}
		}
	}
}

// TestRowsAreBounded: rows are looked up for a bounded number of requests.
func TestRowsAreBounded(t *testing.T) {
	held, release := make(chan struct{}), make(chan struct{})
	src := empty
	src.Rows = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		held <- struct{}{}
		<-release
	})
	h := console.Handler(src)
	ended := make(chan struct{})
	for range 4 {
		go func() {
			do(t, h, http.MethodGet, "/rows/counts?key=a", "")
			ended <- struct{}{}
		}()
		<-held
	}
	if status, _ := do(t, h, http.MethodGet, "/rows/counts?key=a", ""); status != http.StatusServiceUnavailable {
		t.Errorf("the fifth lookup answers %d", status)
	}
	close(release)
	for range 4 {
		<-ended
	}
}
