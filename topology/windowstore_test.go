package topology_test

import (
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

var (
	minuteStore = topology.WindowStore("minutes", schemas.String(), schemas.String(), time.Hour)
	visitStore  = topology.SessionStore("visits", schemas.String(), schemas.String(), time.Hour)
)

// TestTimeStoreMistakes: Build reports the mistakes of stores with a retention.
func TestTimeStoreMistakes(t *testing.T) {
	text := schemas.String()
	hour := topology.WindowStore("s", text, text, time.Hour)
	for _, test := range []struct {
		stores []topology.AnyStore
		want   string
	}{
		{[]topology.AnyStore{topology.WindowStore("s", text, text, 0)}, "a window store has a retention of at least 1 ms"},
		{[]topology.AnyStore{topology.SessionStore("s", text, text, -time.Hour)},
			"a session store has a retention of at least 1 ms, not -3600000"},
		{[]topology.AnyStore{topology.WindowStore("s", text, text, 1500*time.Microsecond)},
			"a window store is a whole number of milliseconds, not 1.5ms"},
		{[]topology.AnyStore{topology.VersionedStore("s", text, text, 1500*time.Microsecond)},
			"a versioned store is a whole number of milliseconds, not 1.5ms"},
		{[]topology.AnyStore{topology.DedupeStore("s", text, text, 1500*time.Microsecond)},
			"a dedupe store is a whole number of milliseconds, not 1.5ms"},
		{[]topology.AnyStore{topology.SessionStore[string, string]("s", text, nil, time.Hour)}, "the value codec is nil"},
		{[]topology.AnyStore{topology.WindowStore("s", text, topology.Nullable(text), time.Hour)}, "Nullable codecs are for topics"},
		{[]topology.AnyStore{hour, topology.SessionStore("s", text, text, time.Hour)},
			"store s is session/3600000 here and window/3600000 in node first"},
		{[]topology.AnyStore{hour, topology.WindowStore("s", text, text, 2*time.Hour)},
			"store s is window/7200000 here and window/3600000 in node first"},
		{[]topology.AnyStore{hour, topology.KeyValueStore("s", text, text)}, "store s is keyvalue here and window/3600000 in node first"},
	} {
		b := topology.NewBuilder("mistakes", topology.DeadLetters("dead"))
		s := topology.From(b, wordsTopic)
		for i, store := range test.stores {
			topology.Stateful(s, []string{"first", "second"}[i], store).Process(idle)
		}
		if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("Build returned %v, want %q", err, test.want)
		}
	}
}

// timeStores is a topology of one node with a store of each kind.
func timeStores(
	t *testing.T, use func(w state.Window[string, string], s state.Session[string, string], r word) error,
) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("times", topology.DeadLetters("dead"))
	n := topology.Stateful(topology.From(b, wordsTopic), "use", minuteStore, visitStore)
	n.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		windows, sessions := minuteStore.In(t), visitStore.In(t)
		return func(_ *topology.Context, r word) error { return use(windows, sessions, r) }, nil
	})
	return mustBuild(t, b)
}

// TestDamagedTimeRowsStop: the parts of a row that no codec sees are checked too, and what is wrong
// with them stops the task, whatever the handler makes of the error.
func TestDamagedTimeRowsStop(t *testing.T) {
	type (
		windows  = state.Window[string, string]
		sessions = state.Session[string, string]
	)
	for name, use := range map[string]func(windows, sessions, word){
		"get": func(w windows, _ sessions, r word) { _, _, _, _ = w.Get(r.Key, r.Timestamp) },
		"windows": func(w windows, _ sessions, _ word) {
			for range w.All(0, now.UnixMilli()) {
			}
		},
		"sessions": func(_ windows, s sessions, _ word) {
			for range s.All() {
			}
		},
	} {
		g, err := timeStores(t, func(w windows, s sessions, r word) error {
			use(w, s, r)
			return nil
		}).NewGraph(fanTask, damagedState{}, baseConfig())
		if err != nil {
			t.Fatal(err)
		}
		v := want(t, (&task{tb: t, graph: g}).words("a", "b"), topology.Stop)
		if v.Failure.Class != topology.Corruption || !errors.Is(v.Failure, state.ErrCorrupt) {
			t.Errorf("%s: the failure is %v, want corruption", name, v.Failure)
		}
	}
}

// damagedState is a State whose rows are too short.
type damagedState struct{}

func (damagedState) Store(string) state.Bytes { return damagedBytes{} }
func (damagedState) Mark()                    {}
func (damagedState) Revert()                  {}
func (damagedState) Savepoint() func()        { return func() {} }

type damagedBytes struct{ brokenBytes }

func (damagedBytes) StreamTime() int64                { return now.UnixMilli() }
func (damagedBytes) Get([]byte) ([]byte, bool, error) { return []byte("short"), true, nil }
func (damagedBytes) Scan(state.Range) iter.Seq2[state.Entry, error] {
	return func(yield func(state.Entry, error) bool) {
		yield(state.Entry{Key: []byte("short row"), Value: make([]byte, 20)}, nil)
	}
}

// TestLargeTimeEntry: the size that counts is that of the changelog record, which is less than the
// row's.
func TestLargeTimeEntry(t *testing.T) {
	top := timeStores(t, func(w state.Window[string, string], _ state.Session[string, string], r word) error {
		_, err := w.Put(r.Key, r.Timestamp, r.Value, r.Timestamp)
		return err
	})
	fits := func(limit int32, value string) bool {
		config := baseConfig()
		config.MaxMessageBytes = func(topic string) int32 {
			if topic == "times-minutes-changelog" {
				return limit
			}
			return 1 << 20
		}
		return openTask(t, top, fanTask, config).words("a", value).Failure == nil
	}
	value := strings.Repeat("v", 100)
	// A batch with its header, the length of the record, three bytes and the number of headers, the
	// key "a" with start and sequence number, the value; with the lengths of both.
	const limit = 61 + 2 + 4 + (1 + 13) + (2 + 100)
	if !fits(limit, value) || fits(limit-1, value) || fits(limit, value+"v") {
		t.Errorf("%d bytes: %t, one less: %t, a value one byte longer: %t; want that it just fits", limit, fits(limit, value),
			fits(limit-1, value), fits(limit, value+"v"))
	}
}
