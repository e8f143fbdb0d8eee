package topology_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// TestStoresRefuseTheFuture: a time in a row becomes that of a changelog record, which the broker
// would refuse when the round commits, and the stream time of the store, which never goes back:
// what it expires is gone. It is the fault of the record that brought it, and leaves nothing
// behind.
func TestStoresRefuseTheFuture(t *testing.T) {
	last := topology.TimestampedStore("last", schemas.String(), schemas.String())
	history := topology.VersionedStore("history", schemas.String(), schemas.String(), time.Hour)
	seen := topology.DedupeStore("seen", schemas.String(), schemas.String(), time.Hour)
	b := topology.NewBuilder("future", topology.DeadLetters("dead"))
	topology.Stateful(topology.From(b, wordsTopic), "put", last, history, seen, minuteStore, visitStore).Process(
		func(t *topology.Setup) (topology.Handler[string, string], error) {
			last, history, seen := last.In(t), history.In(t), seen.In(t)
			windows, sessions := minuteStore.In(t), visitStore.In(t)
			return func(_ *topology.Context, r topology.Record[string, string]) error {
				at := r.Timestamp
				ahead := at + 2*time.Hour.Milliseconds()
				var err error
				switch r.Value {
				case "last":
					err = last.Put(r.Key, r.Value, ahead)
				case "history":
					_, err = history.Put(r.Key, r.Value, ahead)
				case "history delete":
					_, err = history.Delete(r.Key, ahead)
				case "seen":
					_, _, err = seen.PutIfAbsent(r.Key, r.Value, ahead)
				case "window timestamp":
					_, err = windows.Put(r.Key, at, r.Value, ahead)
				case "window":
					_, err = windows.Put(r.Key, ahead, r.Value, ahead) // a value is not older than its window
				case "window delete":
					err = windows.Delete(r.Key, ahead)
				case "session":
					_, err = sessions.Put(r.Key, at, ahead, r.Value)
				case "session delete":
					err = sessions.Delete(r.Key, at, ahead)
				default:
					_, err1 := history.Put(r.Key, r.Value, at)
					_, _, err2 := seen.PutIfAbsent(r.Key, r.Value, at)
					err = errors.Join(last.Put(r.Key, r.Value, at), err1, err2)
				}
				if err != nil && r.Key == "swallow" {
					return nil
				}
				return err
			}, nil
		})
	k := openTask(t, mustBuild(t, b), graph.TaskID{Subtopology: "words"}, baseConfig())
	for _, key := range []string{"k", "swallow"} {
		for _, value := range []string{"last", "history", "history delete", "seen", "window timestamp", "window", "window delete",
			"session", "session delete"} {
			v := want(t, k.words(key, value), topology.DeadLetter)
			if v.Failure.Class != topology.Validation || !strings.Contains(v.Failure.Error(), "ahead of the clock") {
				t.Errorf("%s: %v", value, v.Failure)
			}
		}
	}
	for _, name := range []string{"history", "seen", "minutes", "visits"} {
		if at := k.state.Store(name).StreamTime(); at != 0 {
			t.Errorf("a record that failed moved the stream time of %s to %d", name, at)
		}
	}
	want(t, k.words("k", "now"), graph.Accept)
}

// TestStoreRetentionMistakes: a retention that no store can have is a mistake of the program.
func TestStoreRetentionMistakes(t *testing.T) {
	for _, retention := range []time.Duration{0, -time.Hour, time.Microsecond} {
		for _, store := range []topology.AnyStore{
			topology.VersionedStore("s", schemas.String(), schemas.String(), retention),
			topology.DedupeStore("s", schemas.String(), schemas.String(), retention),
		} {
			b := topology.NewBuilder("retention")
			topology.Stateful(topology.From(b, wordsTopic), "n", store).Process(idle)
			if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), "retention of at least 1 ms") {
				t.Errorf("%T with %s: %v", store, retention, err)
			}
		}
	}
}

// TestStoreLayouts: a subtopology tells the runtime what the rows of its stores look like.
func TestStoreLayouts(t *testing.T) {
	b := topology.NewBuilder("layouts")
	topology.Stateful(topology.From(b, wordsTopic), "n",
		topology.TimestampedStore("timestamped", schemas.String(), schemas.String()),
		topology.VersionedStore("versioned", schemas.String(), schemas.String(), time.Minute),
		topology.DedupeStore("dedupe", schemas.String(), schemas.String(), time.Hour),
	).Process(idle)
	got := map[string]state.Layout{}
	for _, d := range mustBuild(t, b).Subtopologies()[0].Declarations() {
		got[d.Name] = d.Layout
	}
	for name, layout := range map[string]state.Layout{
		"timestamped": {Kind: state.TimestampedKind},
		"versioned":   {Kind: state.VersionedKind, Retention: 60_000},
		"dedupe":      {Kind: state.DedupeKind, Retention: 3_600_000},
	} {
		if got[name] != layout {
			t.Errorf("%s has the layout %s, want %s", name, got[name], layout)
		}
	}
}
