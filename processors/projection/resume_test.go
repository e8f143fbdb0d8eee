package projection_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// tell notes in which mode a record comes to a node of that name, by its version.
func tell[V any](s topology.Stream[string, V], name string, notes *[]string) {
	node := topology.Stateful(s, name)
	node.Process(func(*topology.Setup) (topology.Handler[string, V], error) {
		return func(c *topology.Context, r topology.Record[string, V]) error {
			v, _ := r.Header("version")
			*notes = append(*notes, fmt.Sprintf("%s %s %s", name, v, c.Mode()))
			return nil
		}, nil
	})
}

// told declares a projection all of whose outcomes note the modes in which they come.
func told(b *topology.Builder, s textStream, l projection.Limits, notes *[]string, opts ...projection.Option) {
	opts = append(opts, projection.ParkGaps(textCodec, l), projection.FirstVersion(1))
	p := projection.Latest(s, "texts", version, appendText, listCodec, opts...)
	tell(p.Changes(), "changes", notes)
	tell(p.Stale(), "stale", notes)
	tell(p.Abandoned(), "abandoned", notes)
	if l.Then == projection.AcceptLatest {
		tell(p.Gaps(), "gaps", notes)
	}
	node := topology.Stateful(p.Decisions(), "decisions")
	node.Process(func(*topology.Setup) (topology.Handler[[]byte, decision.Decision], error) {
		return func(c *topology.Context, r topology.Record[[]byte, decision.Decision]) error {
			v, _ := r.Header("version")
			*notes = append(*notes, fmt.Sprintf("%s %s %s", r.Value.Outcome, v, c.Mode()))
			return nil
		}, nil
	})
}

// TestResumedInItsOwnMode is requirement I1: what has waited is released, accepted, abandoned and
// passed by in its own mode, whatever the mode of the record at work is, and without one too.
func TestResumedInItsOwnMode(t *testing.T) {
	accept, few := limits(projection.AcceptLatest), limits(projection.AcceptLatest)
	few.Records = 1
	clock := projection.Limits{Records: 10, WallClock: 8 * time.Second}
	type sent struct{ version, text, mode string }
	for name, test := range map[string]struct {
		limits projection.Limits
		opts   []projection.Option
		app    topology.Mode
		sent   []sent
		// tick says that a record of another key moves the stream time, and the clock goes on.
		tick bool
		want string
	}{
		"a repair releases live ones": {limits: wide, sent: []sent{{"3", "c", ""}, {"2", "b", "BACKFILL"}, {"1", "a", "REPAIR"}},
			want: "applied 1 REPAIR; changes 1 REPAIR; applied 2 BACKFILL; changes 2 BACKFILL; applied 3 LIVE; changes 3 LIVE"},
		"a live one releases repairs": {limits: wide, sent: []sent{{"2", "b", "REPAIR"}, {"1", "a", ""}},
			want: "applied 1 LIVE; changes 1 LIVE; applied 2 REPAIR; changes 2 REPAIR"},
		"a replay makes all one": {limits: wide, app: topology.Replay, sent: []sent{{"2", "b", "REPAIR"}, {"1", "a", ""}},
			want: "applied 1 REPLAY; changes 1 REPLAY; applied 2 REPLAY; changes 2 REPLAY"},
		"refused": {limits: wide, sent: []sent{{"2", "fail", "REPAIR"}, {"1", "a", ""}},
			want: "applied 1 LIVE; changes 1 LIVE; abandoned 2 REPAIR; abandoned 2 REPAIR"},
		"no room": {limits: few, sent: []sent{{"3", "c", ""}, {"5", "e", "REPAIR"}},
			want: "parked 5 REPAIR; applied 3 LIVE; changes 3 LIVE; gaps 3 LIVE"},
		"stream time": {limits: limits(projection.FailFast), sent: []sent{{"3", "c", "REPAIR"}}, tick: true,
			want: "abandoned 3 REPAIR; abandoned 3 REPAIR"},
		"accepted by stream time": {limits: accept, sent: []sent{{"3", "c", "REPAIR"}}, tick: true,
			want: "applied 3 REPAIR; changes 3 REPAIR; gaps 3 REPAIR"},
		"wall clock": {limits: clock, sent: []sent{{"3", "c", "REPAIR"}}, tick: true,
			want: "abandoned 3 REPAIR; abandoned 3 REPAIR"},
		"a new life": {limits: wide, opts: []projection.Option{projection.Incarnation(func(r event) (int64, error) {
			return int64(len(r.Value.Or(""))), nil
		})}, sent: []sent{{"3", "c", "REPAIR"}, {"1", "AA", ""}},
			want: "applied 1 LIVE; changes 1 LIVE; stale 3 REPAIR; stale 3 REPAIR"},
	} {
		t.Run(name, func(t *testing.T) {
			var notes []string
			d := processortest.New(t, func(b *topology.Builder) {
				told(b, topology.From(b, eventsTopic), test.limits, &notes, test.opts...)
			}, topologytest.Mode(test.app))
			for i, s := range test.sent {
				if i == len(test.sent)-1 && !test.tick {
					notes = nil
				}
				opts := []topologytest.PipeOption{topologytest.Header("version", s.version), second(10)}
				if s.mode != "" {
					opts = append(opts, topologytest.Header(topology.HeaderMode, s.mode))
				}
				d.Pipe("events", "k", fmt.Sprintf("%q", s.text), opts...)
			}
			if test.tick {
				notes = nil
				d.Pipe("events", "other", `"tick"`, topologytest.Header("version", "1"), second(18))
				for range 10 {
					if err := d.Advance(time.Second); err != nil {
						t.Fatal(err)
					}
				}
				notes = slices.DeleteFunc(notes, func(n string) bool { return strings.Contains(n, " 1 ") })
			}
			if got := strings.Join(notes, "; "); got != test.want {
				t.Errorf("it was told %q, want %q", got, test.want)
			}
		})
	}
}

// TestModeWithoutHeader: what has waited keeps its mode also where user code has taken the header
// away.
func TestModeWithoutHeader(t *testing.T) {
	var notes []string
	d := processortest.New(t, func(b *topology.Builder) {
		bare := topology.Map(topology.From(b, eventsTopic), "bare", func(r event) (event, error) {
			v, _ := r.Header("version")
			r.Headers = []topology.Header{{Key: "version", Value: v}}
			return r, nil
		})
		told(b, bare.Copartitioned(), wide, &notes)
	})
	d.Pipe("events", "k", `"b"`, topologytest.Header("version", "2"), topologytest.Header(topology.HeaderMode, "REPAIR"))
	notes = nil
	send(d, "1:a")
	if got, want := strings.Join(notes, "; "), "applied 1 LIVE; changes 1 LIVE; applied 2 REPAIR; changes 2 REPAIR"; got != want {
		t.Errorf("it was told %q, want %q", got, want)
	}
}

// TestIngestionIDOfReleased is requirement B3: what is released has the id of its own delivery,
// also where the unit that releases it is tried again.
func TestIngestionIDOfReleased(t *testing.T) {
	failed := false
	d := processortest.New(t, func(b *topology.Builder) {
		changes := waiting(b, wide).Changes()
		in := inbox.Dedupe(changes, "inbox", inbox.IngestionID, inbox.Forever())
		topology.MapValuesWithRecord(in.Accepted(), "version", func(r topology.Record[string, row]) (string, error) {
			if r.Value.Version == 3 && !failed {
				failed = true
				return "", topology.Fail(topology.Transient, schemas.Reason("asked to"))
			}
			topic, partition, offset := r.Source()
			return fmt.Sprintf("%d from %s[%d]@%d", r.Value.Version, topic, partition, offset), nil
		}).Into(topology.Topic("accepted", schemas.String(), schemas.String()))
	})
	send(d, "3:c", "4:d", "2:b")
	d.Restart()
	send(d, "1:a", "5:e")
	d.Want("accepted", "1 from events[0]@3", "2 from events[0]@2", "3 from events[0]@0", "4 from events[0]@1", "5 from events[0]@4")
	if !failed {
		t.Error("nothing was tried again")
	}
}
