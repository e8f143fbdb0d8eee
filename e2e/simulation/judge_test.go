package simulation_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/simulation"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
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

// lossless are the damages after which an output without an order is wrong, and settled those after
// which one is wrong that has to end right.
var (
	all      = slices.Sorted(maps.Keys(damages))
	lossless = []string{"the first is missing", "the last is missing", "the first is doubled", "the last is doubled"}
	settled  = []string{"the first is missing", "the last is missing"}
)

// testJudge checks that a subject finds nothing wrong with the right log, and something with every
// damage to every output.
func testJudge(t *testing.T, make func() (simulation.Subject, error), right logs, outputs ...string) {
	t.Helper()
	harmful := map[string][]string{}
	for _, topic := range outputs {
		harmful[topic] = all
	}
	testDamages(t, make, right, harmful)
}

// testDamages is testJudge with the names of the damages by output.
func testDamages(t *testing.T, make func() (simulation.Subject, error), right logs, harmful map[string][]string) {
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
	for topic, names := range harmful {
		for _, name := range names {
			log := logs{}
			for t, partitions := range right {
				log[t] = slices.Clone(partitions)
			}
			log[topic][0] = damages[name](log[topic][0])
			if wrong := judge(log); len(wrong) == 0 {
				t.Errorf("%s of %s, and nothing is found", name, topic)
			}
		}
	}
}

// TestJudgeOfTables: every damage to the joined records is found. The right log follows the rules
// of joins in the package documentation of topology: a record for each change if the other side has
// a value. An outer join also has a record for every other change, except the delete of a missing
// row.
func TestJudgeOfTables(t *testing.T) {
	testJudge(t, simulation.Tables, tablesLog(), simulation.EitherTopic, simulation.BothTopic)
}

// tablesLog is a right log of the subject of tables.
func tablesLog() logs {
	version, joined := versionOf, joinedOf
	return logs{
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
	}
}

// versionOf is a row of a table, deleted if the version is 0.
func versionOf(key string, v int64) *kgo.Record {
	r := &kgo.Record{Key: []byte(key)}
	if v > 0 {
		r.Value = binary.BigEndian.AppendUint64(nil, uint64(v))
	}
	return r
}

// joinedOf is a row of a join, deleted if there is no value.
func joinedOf(key, value string) *kgo.Record {
	r := &kgo.Record{Key: []byte(key)}
	if value != "" {
		r.Value = []byte(value)
	}
	return r
}

// TestJudgeOfLinks: every damage to the joined records is found.
func TestJudgeOfLinks(t *testing.T) {
	testJudge(t, simulation.Links, linksLog(), simulation.LinkedTopic, simulation.LinkedBothTopic)
}

// linksLog is a right log of the subject of links.
func linksLog() logs {
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
	return logs{
		simulation.LinksTopic:   {{link("a", 1, "x"), link("b", 1, "y"), link("c", 1, ""), link("d", 1, "x"), link("d", 0, ""), link("b", 2, "x")}},
		simulation.TargetsTopic: {{target("x", 1), target("y", 1), target("x", 2)}},
		simulation.LinkedTopic: {{
			joined("a", 1, 2), joined("c", 1, 0), joined("b", 1, 0), joined("d", 1, 0), joined("d", 1, 1), joined("d", 0, 0), joined("b", 1, 1),
			joined("b", 2, 1), joined("b", 2, 2),
		}},
		simulation.LinkedBothTopic: {{joined("a", 1, 2), joined("b", 1, 1), joined("d", 1, 1), joined("d", 0, 0), joined("b", 2, 1), joined("b", 2, 2)}},
	}
}

// stamped is a record with a time in milliseconds.
func stamped(r *kgo.Record, at int64) *kgo.Record {
	r.Timestamp = time.UnixMilli(at)
	return r
}

// momentOf is an order, a payment or an event.
func momentOf(key string, id int, at int64) *kgo.Record {
	return &kgo.Record{Key: []byte(key), Value: fmt.Appendf(nil, `{"id":%d,"at":%d}`, id, at)}
}

// TestJudgeOfJoins: every loss and every double is found, and a wrong order where there is one.
func TestJudgeOfJoins(t *testing.T) {
	const end = 2_000_000
	met := func(key string, left, right int, at int64) *kgo.Record {
		return stamped(joinedOf(key, fmt.Sprintf(`{"left":%d,"right":%d}`, left, right)), at)
	}
	right := tablesLog()
	maps.Copy(right, linksLog())
	maps.Copy(right, logs{
		simulation.OrdersTopic:   {{momentOf("a", 1, 10_000), momentOf("b", 2, 20_000), momentOf("b", 5, 21_000), momentOf("a", 9, end), momentOf("b", 10, end)}},
		simulation.PaymentsTopic: {{momentOf("a", 3, 12_000), momentOf("b", 4, 40_000), momentOf("b", 6, 18_000)}},
		simulation.LabelsTopic:   {{versionOf("label-1", 1), versionOf("label-1", 2)}},
		simulation.RowTopic:      {{met("a", 1, 1, 10_000), met("b", 2, 1, 20_000), met("b", 5, 1, 21_000), met("b", 10, 1, end)}},
		simulation.RowOrNoneTopic: {{
			met("a", 1, 1, 10_000), met("b", 2, 1, 20_000), met("b", 5, 1, 21_000), met("a", 9, 0, end), met("b", 10, 1, end),
		}},
		simulation.LabelTopic: {{
			met("a", 1, 2, 10_000), met("b", 2, 0, 20_000), met("b", 5, 0, 21_000), met("a", 9, 0, end), met("b", 10, 0, end),
		}},
		simulation.PaidTopic: {{met("a", 1, 3, 12_000), met("b", 2, 6, 20_000), met("b", 5, 6, 21_000)}},
		// Order 5 comes late, so that it is passed on before it meets payment 6.
		simulation.PaidOrNotTopic: {{met("a", 1, 3, 12_000), met("b", 2, 6, 20_000), met("b", 5, 0, 21_000), met("b", 5, 6, 21_000)}},
		simulation.AnyTopic:       {{met("a", 1, 3, 12_000), met("b", 2, 6, 20_000), met("b", 5, 6, 21_000), met("b", 0, 4, 40_000)}},
	})
	testDamages(t, simulation.Joins, right, map[string][]string{
		simulation.RowTopic: all, simulation.RowOrNoneTopic: all, simulation.LabelTopic: all,
		simulation.PaidTopic: lossless, simulation.AnyTopic: lossless,
		// A result of order 5 alone does not follow one in which it meets a payment.
		simulation.PaidOrNotTopic: all,
		simulation.EitherTopic:    all, simulation.LinkedTopic: all,
	})
}

// TestJudgeOfAllWindows: every loss and every double is found.
func TestJudgeOfAllWindows(t *testing.T) {
	const first, last = 1_000_000, 3_000_000
	sum := func(start, end, at int64, id int) *kgo.Record {
		key, err := topology.WindowedTextCodec(schemas.String()).Append(nil, topology.Windowed[string]{Key: "a", Start: start, End: end})
		if err != nil {
			t.Fatal(err)
		}
		return stamped(&kgo.Record{Key: key, Value: fmt.Appendf(nil, `{"count":1,"sum":%d}`, id)}, at)
	}
	tumbled := &kgo.Record{Key: binary.BigEndian.AppendUint64([]byte("a"), first), Value: []byte(`{"count":1,"sum":1}`)}
	testDamages(t, simulation.AllWindows, logs{
		simulation.EventsTopic: {{momentOf("a", 1, first), momentOf("a", 2, last)}},
		simulation.ClosedTopic: {{stamped(tumbled, first)}},
		simulation.HopsTopic: {{
			sum(first-5_000, first+5_000, first, 1), sum(first, first+10_000, first, 1),
			sum(last-5_000, last+5_000, last, 2), sum(last, last+10_000, last, 2),
		}},
		simulation.CalmTopic:   {{sum(first-5_000, first+5_000, first, 1), sum(first, first+10_000, first, 1)}},
		simulation.NearTopic:   {{sum(first-3_000, first, first, 1)}},
		simulation.VisitsTopic: {{sum(first, first, first, 1), sum(last, last, last, 2)}},
		simulation.OverTopic:   {{sum(first, first, first, 1)}},
	}, map[string][]string{
		simulation.ClosedTopic: lossless, simulation.HopsTopic: lossless, simulation.CalmTopic: lossless, simulation.NearTopic: lossless,
		simulation.OverTopic: lossless, simulation.VisitsTopic: settled,
	})
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
