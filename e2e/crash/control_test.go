//go:build unix

package crash

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
)

// scenes is in how many scenes an application is broken at most until it shows: the round that the kill meets can be one of groups alone, in
// which nothing is broken.
const scenes = 5

// TestTheCheckFindsLossAndDuplicates breaks the application: it works outside of its transactions, and a kill has to show.
func TestTheCheckFindsLossAndDuplicates(t *testing.T) {
	cluster.SkipWithout(t, cluster.KindVirtual)
	says := map[Broken]string{
		CountInMemory: `is "1 i`, // instead of a higher number
		DedupeInFile:  "want",    // the input that follows the lost ones
	}
	all := []Broken{Whole, CountInMemory, DedupeInFile}
	name := func(broken Broken) string { return "broken=" + string(broken) }
	killed := func(t *testing.T, broken Broken) (found error) {
		cluster.OnVirtual(t, func(t *testing.T, c *cluster.Cluster) {
			s := newScene(t, c, c.Client(t, manual()))
			s.settings.Broken = broken
			p := s.startArmed(s.settings, "offsets-before=kill,skip=5", "failpoint offsets-before kill")
			s.feedUntil(closed(p.hit(0)), "offsets-before", p.Alive)
			s.settings.StateDir = p.killed()
			l := s.start("the life after", s.settings)
			s.feed(batch)
			s.committed(l)
			l.End()
			found = s.difference()
		})
		return found
	}
	cluster.Cells(t, len(all), all, name, func(t *testing.T, broken Broken) {
		if broken == Whole {
			if err := killed(t, broken); err != nil {
				t.Errorf("the application that is not broken: %v", err)
			}
			return
		}
		found := false
		for n := 1; n <= scenes && !found; n++ {
			t.Run("scene="+strconv.Itoa(n), func(t *testing.T) {
				err := killed(t, broken)
				found = err != nil
				if found && !strings.Contains(err.Error(), says[broken]) {
					t.Errorf("the check found %v, want something with %q", err, says[broken])
				}
			})
		}
		if !found {
			t.Errorf("the check found nothing in %d scenes", scenes)
		}
	})
}

// committed waits until every input is behind a committed position, whatever became of it, and so are the groups' records.
func (s *scene) committed(l *instance.App) {
	s.t.Helper()
	in, again := s.settings.Prefix+In, s.settings.Application+"-groups-repartition"
	deadline := time.Now().Add(s.patience)
	for {
		behind := false
		for _, topic := range []string{in, again} {
			// Behind the last record there may be a marker, which moves the position only with the next record.
			records, err := s.cluster.ReadAll(s.t.Context(), topic)
			if err != nil {
				s.t.Fatal(err)
			}
			commits, err := s.cluster.CommittedOffsets(s.t.Context(), s.settings.Application, topic)
			if err != nil {
				s.t.Fatal(err)
			}
			for p, rs := range records {
				behind = behind || len(rs) > 0 && commits[topic][p].Offset <= rs[len(rs)-1].Offset
			}
		}
		if !behind {
			return
		}
		if err := l.Alive(); err != nil {
			s.t.Fatal(err)
		}
		if time.Now().After(deadline) {
			s.t.Fatal("the inputs are not committed")
		}
	}
}

// TestFold damages right outputs and right state in every way that has a name.
func TestFold(t *testing.T) {
	var inputs []input
	keyOf := map[string]string{}
	for n := range 50 {
		in := input{id: "i" + strconv.Itoa(n), key: string(rune('a'+n%3)) + strconv.Itoa(n%2)}
		in.value = strings.TrimSpace(in.id + " " + plain(n))
		inputs = append(inputs, in)
		keyOf[in.value] = in.key
	}
	f := foldOf(inputs)
	right := func() (got topics) {
		record := func(key, value string) *kgo.Record { return &kgo.Record{Key: []byte(key), Value: []byte(value)} }
		got = topics{out: make([][]*kgo.Record, 1), totals: make([][]*kgo.Record, 1), dead: make([][]*kgo.Record, 1)}
		counts := map[string]int{}
		for _, in := range inputs {
			if isPoison(in.value) {
				got.dead[0] = append(got.dead[0], record(in.key, in.value))
				continue
			}
			for key, to := range map[string]*[]*kgo.Record{in.key: &got.out[0], groupOf(in.key): &got.totals[0]} {
				counts[key]++
				*to = append(*to, record(key, strconv.Itoa(counts[key])+" "+in.value))
			}
		}
		return got
	}
	if err := f.check(right(), keyOf); err != nil {
		t.Fatalf("right outputs: %v", err)
	}
	for name, damage := range map[string]func([]*kgo.Record) []*kgo.Record{
		"lost at the start": func(r []*kgo.Record) []*kgo.Record { return r[1:] },
		"lost at the end":   func(r []*kgo.Record) []*kgo.Record { return r[:len(r)-1] },
		"doubled":           func(r []*kgo.Record) []*kgo.Record { return append(r, r[len(r)-1]) },
		"doubled at once":   func(r []*kgo.Record) []*kgo.Record { return slices.Insert(r, 1, r[0]) },
		"from nowhere": func(r []*kgo.Record) []*kgo.Record {
			return append(r, &kgo.Record{Key: []byte("a0"), Value: []byte("1 i999")})
		},
	} {
		for topic, part := range map[string]func(*topics) *[]*kgo.Record{
			Out:    func(g *topics) *[]*kgo.Record { return &g.out[0] },
			Totals: func(g *topics) *[]*kgo.Record { return &g.totals[0] },
			Dead:   func(g *topics) *[]*kgo.Record { return &g.dead[0] },
		} {
			got := right()
			*part(&got) = damage(*part(&got))
			if f.check(got, keyOf) == nil {
				t.Errorf("%s in %s was not found", name, topic)
			}
		}
	}
	for name, records := range map[string]func(topics) []*kgo.Record{
		"out":    func(g topics) []*kgo.Record { return g.out[0] },
		"totals": func(g topics) []*kgo.Record { return g.totals[0] },
	} {
		got := right()
		r := records(got)
		r[0].Value, r[6].Value = r[6].Value, r[0].Value // one key
		if f.check(got, keyOf) == nil {
			t.Errorf("a changed order in %s was not found", name)
		}
	}
}

// TestFoldOfState damages right state.
func TestFoldOfState(t *testing.T) {
	f := foldOf([]input{{"i0", "a0", "i0"}, {"i1", "b0", "i1"}, {"i2", "a0", "i2"}})
	right := func() (counts, groups map[string]Tally) {
		return map[string]Tally{"a0": {2, "i2"}, "b0": {1, "i1"}}, map[string]Tally{"g0": {3, "i2"}}
	}
	if err := f.checkState(right()); err != nil {
		t.Fatalf("right state: %v", err)
	}
	for name, damage := range map[string]func(counts, groups map[string]Tally){
		"applied twice":  func(c, _ map[string]Tally) { c["a0"] = Tally{3, "i2"} },
		"not applied":    func(c, _ map[string]Tally) { c["a0"] = Tally{1, "i0"} },
		"lost":           func(c, _ map[string]Tally) { delete(c, "b0") },
		"from nowhere":   func(c, _ map[string]Tally) { c["c0"] = Tally{1, "i3"} },
		"group twice":    func(_, g map[string]Tally) { g["g0"] = Tally{4, "i2"} },
		"group in part":  func(_, g map[string]Tally) { g["g0"] = Tally{3, "i0"} },
		"another group":  func(_, g map[string]Tally) { g["g1"] = Tally{1, "i0"} },
		"group is gone":  func(_, g map[string]Tally) { delete(g, "g0") },
		"key in a group": func(c, g map[string]Tally) { c["g0"] = g["g0"] },
	} {
		counts, groups := right()
		damage(counts, groups)
		if f.checkState(counts, groups) == nil {
			t.Errorf("%s was not found", name)
		}
	}
}
