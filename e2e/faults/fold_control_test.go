package faults

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestFold damages right outputs and right state in every way that has a name.
func TestFold(t *testing.T) {
	var inputs []input
	keyOf := map[string]string{}
	for n := range 50 {
		in := inputOf(n, plain(n))
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
		"lost inside":       func(r []*kgo.Record) []*kgo.Record { return slices.Delete(r, len(r)/2, len(r)/2+1) },
		"lost at the end":   func(r []*kgo.Record) []*kgo.Record { return r[:len(r)-1] },
		"doubled":           func(r []*kgo.Record) []*kgo.Record { return append(r, r[len(r)-1]) },
		"doubled at once":   func(r []*kgo.Record) []*kgo.Record { return slices.Insert(r, 1, r[0]) },
		"from nowhere": func(r []*kgo.Record) []*kgo.Record {
			return append(r, &kgo.Record{Key: []byte("a0"), Value: []byte("1 i999")})
		},
		"of another key": func(r []*kgo.Record) []*kgo.Record {
			return append(r[:len(r)-1], &kgo.Record{Key: []byte("other"), Value: r[len(r)-1].Value})
		},
		"with another number": func(r []*kgo.Record) []*kgo.Record {
			last := r[len(r)-1]
			_, rest, _ := strings.Cut(string(last.Value), " ")
			return append(r[:len(r)-1], &kgo.Record{Key: last.Key, Value: []byte("999 " + rest)})
		},
	} {
		for topic, part := range map[string]func(*topics) *[]*kgo.Record{
			outTopic:    func(g *topics) *[]*kgo.Record { return &g.out[0] },
			totalsTopic: func(g *topics) *[]*kgo.Record { return &g.totals[0] },
			deadTopic:   func(g *topics) *[]*kgo.Record { return &g.dead[0] },
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
		r[0].Value, r[keys].Value = r[keys].Value, r[0].Value // one key
		if f.check(got, keyOf) == nil {
			t.Errorf("a changed order in %s was not found", name)
		}
	}
}

// TestFoldOfState damages right state.
func TestFoldOfState(t *testing.T) {
	f := foldOf([]input{{"i0", "a0", "i0", 0}, {"i1", "b0", "i1", 1}, {"i2", "a0", "i2", 0}})
	right := func() (counts, groups map[string]keyCount) {
		return map[string]keyCount{"a0": {2, "i2"}, "b0": {1, "i1"}}, map[string]keyCount{"g0": {3, "i2"}}
	}
	if err := f.checkState(right()); err != nil {
		t.Fatalf("right state: %v", err)
	}
	for name, damage := range map[string]func(counts, groups map[string]keyCount){
		"applied twice":  func(c, _ map[string]keyCount) { c["a0"] = keyCount{3, "i2"} },
		"not applied":    func(c, _ map[string]keyCount) { c["a0"] = keyCount{1, "i0"} },
		"lost":           func(c, _ map[string]keyCount) { delete(c, "b0") },
		"from nowhere":   func(c, _ map[string]keyCount) { c["c0"] = keyCount{1, "i3"} },
		"group twice":    func(_, g map[string]keyCount) { g["g0"] = keyCount{4, "i2"} },
		"group in part":  func(_, g map[string]keyCount) { g["g0"] = keyCount{3, "i0"} },
		"another group":  func(_, g map[string]keyCount) { g["g1"] = keyCount{1, "i0"} },
		"group is gone":  func(_, g map[string]keyCount) { delete(g, "g0") },
		"key in a group": func(c, g map[string]keyCount) { c["g0"] = g["g0"] },
	} {
		counts, groups := right()
		damage(counts, groups)
		if f.checkState(counts, groups) == nil {
			t.Errorf("%s was not found", name)
		}
	}
}
