package txn_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/internal/console"
)

// fakeLetter is a dead letter with its record.
type fakeLetter struct {
	id, topic  string
	key, value []byte
}

// fakeLetters has one dead letter for each record.
type fakeLetters struct {
	records []fakeLetter
	redrove int
}

func (f *fakeLetters) Newest(_ context.Context, _ string, _ console.LetterFilter, _ int, show console.ContentFunc) (list console.LetterList, err error) {
	for _, r := range f.records {
		l := console.Letter{ID: r.id}
		if show != nil {
			shown := show(r.topic, r.key, r.value)
			l.Content = &shown
		}
		list.Letters = append(list.Letters, l)
	}
	return list, nil
}

func (f *fakeLetters) Redrive(context.Context, string, []console.LetterName, bool) ([]console.LetterOutcome, error) {
	f.redrove++
	return nil, nil
}

// letteredApp returns an App that has a dead-letter topic.
func letteredApp(t *testing.T, options txn.Console) *txn.App {
	t.Helper()
	b := topology.NewBuilder("counting", topology.DeadLetters("dead"))
	topology.From(b, topology.Topic("in", schemas.String(), schemas.Int64())).Into(topology.Topic("out", schemas.String(), schemas.Int64()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	app, err := txn.New(top, txn.Config{
		Brokers: []string{"localhost:9092"}, StateDir: "state", Console: options, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return app
}

// TestConsoleIsReadOnlyByDefault: nothing is redriven, and no content is shown, unless the program
// allows it. With the options it is, as the control.
func TestConsoleIsReadOnlyByDefault(t *testing.T) {
	for name, c := range map[string]struct {
		options       txn.Console
		status        int
		redrove       int
		shows         []string
		settings, why string
	}{
		"default": {txn.Console{}, http.StatusForbidden, 0, nil, "read-only", "Config.Console"},
		"all": {
			txn.Console{Actions: true, Contents: true}, http.StatusOK, 1,
			[]string{`"key":"k","value":"7"`, `"key":"null","value":"text"`, `"key":"base64 /w==","value":"null"`},
			"dead letters, contents of records, actions", "",
		},
		"letters": {txn.Console{}, http.StatusForbidden, 0, nil, "dead letters", ""},
	} {
		seven, err := schemas.Int64().Append(nil, 7)
		if err != nil {
			t.Fatal(err)
		}
		letters := &fakeLetters{records: []fakeLetter{
			{"sesame", "in", []byte("k"), seven}, {topic: "in", value: []byte("text")}, {topic: "other", key: []byte{0xff}},
		}}
		if c.why == "" {
			c.options.DeadLetters = letters
		}
		app := letteredApp(t, c.options)
		document, text := shownBy(t, app)
		if c.why != "" && !strings.Contains(text, c.why) {
			t.Errorf("%s: the page does not say why there is no list: %s", name, text)
		}
		for _, s := range document.Settings {
			if s.Name == "Console" && s.Value != c.settings {
				t.Errorf("%s: the settings say %q, want %q", name, s.Value, c.settings)
			}
		}
		if c.why == "" {
			_, list := get(app, "/console/dead-letters")
			for _, text := range c.shows {
				if !strings.Contains(list, text) {
					t.Errorf("%s: the list does not show %s: %s", name, text, list)
				}
			}
			if c.shows == nil && strings.Contains(list, "content") || !strings.Contains(list, "sesame") {
				t.Errorf("%s: the list is %s", name, list)
			}
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/console/dead-letters/redrive", strings.NewReader(`{"letters":[{"id":"sesame"}]}`))
		r.Header.Set("Content-Type", "application/json")
		app.Handler().ServeHTTP(w, r)
		if w.Code != c.status || letters.redrove != c.redrove {
			t.Errorf("%s: a redrive answers %d and was made %d times, want %d and %d", name, w.Code, letters.redrove, c.status, c.redrove)
		}
	}
}
