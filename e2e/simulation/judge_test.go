package simulation_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/simulation"
)

// logs are the records of topics, by partition.
type logs map[string][][]*kgo.Record

// damages are what may be wrong with the records of a topic, by name. Each returns a log of its
// own.
var damages = map[string]func([]*kgo.Record) []*kgo.Record{
	"the first is missing": func(r []*kgo.Record) []*kgo.Record { return r[1:] },
	"the last is missing":  func(r []*kgo.Record) []*kgo.Record { return r[:len(r)-1] },
	"the first is doubled": func(r []*kgo.Record) []*kgo.Record { return append([]*kgo.Record{r[0]}, r...) },
	"the last is doubled":  func(r []*kgo.Record) []*kgo.Record { return append(slices.Clone(r), r[len(r)-1]) },
	"the last two are exchanged": func(r []*kgo.Record) []*kgo.Record {
		r = slices.Clone(r)
		n := len(r)
		r[n-1], r[n-2] = r[n-2], r[n-1]
		return r
	},
}

// testJudge checks that a subject finds nothing wrong with the right log, and something with every
// damage to every output.
func testJudge(t *testing.T, make func() (simulation.Subject, error), right logs, outputs ...string) {
	t.Helper()
	judge := func(log logs) []string {
		s, err := make()
		if err != nil {
			t.Fatal(err)
		}
		// No feeder has produced these inputs.
		return slices.DeleteFunc(s.Judge(log), func(w string) bool { return strings.HasSuffix(w, "were acknowledged") })
	}
	if wrong := judge(right); len(wrong) > 0 {
		t.Fatalf("the right log: %q", wrong)
	}
	for name, damage := range damages {
		for _, topic := range outputs {
			log := logs{}
			for t, partitions := range right {
				log[t] = slices.Clone(partitions)
			}
			log[topic][0] = damage(log[topic][0])
			if wrong := judge(log); len(wrong) == 0 {
				t.Errorf("%s of %s, and nothing is found", name, topic)
			}
		}
	}
}

// TestJudgeOfTables: every damage to the joined records is found. The right log has what the
// package documentation of topology says of joins: a record for each change that the other side has
// a value for, and in the outer join for every other one as well, but for the delete of what is not
// there.
func TestJudgeOfTables(t *testing.T) {
	version := func(key string, v int64) *kgo.Record {
		r := &kgo.Record{Key: []byte(key)}
		if v > 0 {
			r.Value = binary.BigEndian.AppendUint64(nil, uint64(v))
		}
		return r
	}
	joined := func(key, value string) *kgo.Record {
		r := &kgo.Record{Key: []byte(key)}
		if value != "" {
			r.Value = []byte(value)
		}
		return r
	}
	testJudge(t, simulation.Tables, logs{
		simulation.LeftTopic:  {{version("a", 1), version("b", 1), version("a", 2), version("a", 0), version("a", 0)}},
		simulation.RightTopic: {{version("a", 1), version("b", 1), version("a", 0), version("b", 2)}},
		simulation.EitherTopic: {{
			joined("a", `{"left":1,"right":0}`), joined("a", `{"left":1,"right":1}`), joined("b", `{"left":0,"right":1}`),
			joined("b", `{"left":1,"right":1}`), joined("a", `{"left":2,"right":1}`), joined("a", `{"left":0,"right":1}`), joined("a", ""),
			joined("b", `{"left":1,"right":2}`),
		}},
		simulation.BothTopic: {{
			joined("a", `{"left":1,"right":1}`), joined("b", `{"left":1,"right":1}`), joined("a", `{"left":2,"right":1}`), joined("a", ""),
			joined("b", `{"left":1,"right":2}`),
		}},
	}, simulation.EitherTopic, simulation.BothTopic)
}

// TestJudgeOfLinks: every damage to the joined records is found.
func TestJudgeOfLinks(t *testing.T) {
	link := func(key string, version int, to string) *kgo.Record {
		r := &kgo.Record{Key: []byte(key)}
		if version > 0 {
			r.Value = fmt.Appendf(nil, `{"version":%d,"to":%q}`, version, to)
		}
		return r
	}
	joined := func(key string, left, right int) *kgo.Record {
		r := &kgo.Record{Key: []byte(key)}
		if left > 0 {
			r.Value = fmt.Appendf(nil, `{"left":%d,"right":%d}`, left, right)
		}
		return r
	}
	target := func(key string, version uint64) *kgo.Record {
		return &kgo.Record{Key: []byte(key), Value: binary.BigEndian.AppendUint64(nil, version)}
	}
	testJudge(t, simulation.Links, logs{
		simulation.LinksTopic:   {{link("a", 1, "x"), link("b", 1, "y"), link("c", 1, ""), link("d", 1, "x"), link("d", 0, ""), link("b", 2, "x")}},
		simulation.TargetsTopic: {{target("x", 1), target("y", 1), target("x", 2)}},
		simulation.LinkedTopic: {{
			joined("a", 1, 2), joined("c", 1, 0), joined("b", 1, 0), joined("d", 1, 0), joined("d", 1, 1), joined("d", 0, 0), joined("b", 1, 1),
			joined("b", 2, 1), joined("b", 2, 2),
		}},
		simulation.LinkedBothTopic: {{joined("a", 1, 2), joined("b", 1, 1), joined("d", 1, 1), joined("d", 0, 0), joined("b", 2, 1), joined("b", 2, 2)}},
	}, simulation.LinkedTopic, simulation.LinkedBothTopic)
}

// TestJudgeOfWindows: every damage to the closed windows is found. The windows are of ten seconds
// with a grace of five.
func TestJudgeOfWindows(t *testing.T) {
	event := func(key string, id int, at time.Duration) *kgo.Record {
		return &kgo.Record{Key: []byte(key), Value: fmt.Appendf(nil, `{"id":%d,"at":%d}`, id, at.Milliseconds())}
	}
	closed := func(key string, start, at time.Duration, count, sum int) *kgo.Record {
		return &kgo.Record{
			Key:   binary.BigEndian.AppendUint64([]byte(key), uint64(start.Milliseconds())),
			Value: fmt.Appendf(nil, `{"count":%d,"sum":%d}`, count, sum), Timestamp: time.UnixMilli(at.Milliseconds()),
		}
	}
	const s = time.Second
	testJudge(t, simulation.Windows, logs{
		simulation.EventsTopic: {{
			event("b", 1, 3*s), event("a", 2, 4*s), event("a", 3, 12*s), event("a", 4, 9*s), event("a", 5, 14*s+999*time.Millisecond),
			event("b", 6, s),    // within the grace
			event("a", 7, 15*s), // closes the first windows
			event("a", 8, 9*s),  // late
			event("c", 9, 10*s), event("c", 10, 60*s),
		}},
		simulation.ClosedTopic: {{
			closed("a", 0, 9*s, 2, 6), closed("b", 0, 3*s, 2, 7), closed("a", 10*s, 15*s, 3, 15), closed("c", 10*s, 10*s, 1, 9),
		}},
	}, simulation.ClosedTopic)
}

// TestJudgeOfNothing: a run without inputs proves nothing.
func TestJudgeOfNothing(t *testing.T) {
	for _, s := range subjects {
		subject, err := s.make()
		if err != nil {
			t.Fatal(err)
		}
		if subject.Spec().Input != "" {
			continue // package check judges it alone
		}
		log := logs{}
		for _, topic := range subject.Topology().Topics() {
			log[topic] = [][]*kgo.Record{nil}
		}
		if len(subject.Judge(log)) == 0 {
			t.Errorf("%s: an empty log is right", s.name)
		}
	}
}
