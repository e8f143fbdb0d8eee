package admin

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/topology/topologytest"
)

// TestEditionReplacesTheDeadLetter: an edition takes the place of the dead letter, in its order,
// and the dead letter as it died stays in the topic. Requirement G5.
func TestEditionReplacesTheDeadLetter(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		o := newHarness(t)
		o.die("a=1", "a=2", "b=3")
		first := o.all(DeadLetterFilter{})["1"]
		stale := first
		first.Value, first.Headers = []byte("one"), append(first.Headers, Header{"fixed", []byte("yes")})
		if err := o.letters.Edit(o.ctx, first); err != nil {
			t.Fatal(err)
		}
		if err := o.letters.Edit(o.ctx, stale); !errors.Is(err, ErrDeadLetterEdited) {
			t.Errorf("editing what somebody else has edited returned %v", err)
		}
		found, err := o.letters.Find(o.ctx, first.ID)
		if err != nil || string(found.Value) != "one" || found.Edition != 1 || found.Deaths != 1 {
			t.Fatalf("found %v, %v", found, err)
		}
		found.Value = []byte("eins")
		if err := o.letters.Edit(o.ctx, found); err != nil {
			t.Fatal(err)
		}
		third := o.all(DeadLetterFilter{})["3"]
		third.Key = []byte("c")
		if err := o.letters.Edit(o.ctx, third); err != nil {
			t.Fatal(err)
		}
		o.redrive(RedriveOptions{})
		o.want("in", "a=eins", "a=2", "c=3")
		for _, r := range o.read("in") {
			if string(r.Key) == "c" && r.Partition != graph.PartitionOf(r.Key, harnessPartitions) {
				t.Errorf("the new key is in partition %d", r.Partition)
			}
			if string(r.Value) == "eins" && string(r.Headers[2].Value) != "yes" {
				t.Errorf("the headers are %v", r.Headers)
			}
		}
		if err := o.letters.Edit(o.ctx, found); !errors.Is(err, ErrDeadLetterRedriven) {
			t.Errorf("editing what was redriven returned %v", err)
		}
		if _, err := o.letters.Find(o.ctx, "x"); !errors.Is(err, ErrNoDeadLetter) {
			t.Errorf("Find returned %v", err)
		}
	})
}

// TestEditionsReplaceCutParts claims that a cut dead letter is whole when editions have replaced
// every cut part. One edition may replace all of them, or several may share the work. Requirement
// G5.
func TestEditionsReplaceCutParts(t *testing.T) {
	const (
		value = 1 << iota
		key
		headers
	)
	for name, test := range map[string]struct {
		cut      string
		editions []int
		want     string // what is still cut after each edition
	}{
		"value":                {"key=1 value=9 headers=2", []int{key, value}, "value=9;"},
		"value and headers":    {"key=1 value=9 headers=3", []int{value, headers}, "headers=3;"},
		"all":                  {"key=2 value=9 headers=3", []int{headers, key, key, value}, "key=2 value=9;value=9;value=9;"},
		"all at once":          {"key=2 value=9 headers=3", []int{value | headers | key}, ""},
		"value, same size":     {"key=1 value=2 headers=2", []int{value}, ""},
		"of another program":   {"key=1 value=x headers=2 colour=3", []int{value | headers | key}, "value=x colour=3"},
		"nothing that was cut": {"key=1 value=9 headers=2", []int{headers | key}, "value=9"},
	} {
		t.Run(name, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) {
				o := newHarness(t)
				o.die("a=1")
				cut := letterRecord(o.read("dead")[0])
				for i, h := range cut.Headers {
					if h.Key == graph.HeaderID {
						cut.Headers[i].Value = []byte("cut")
					}
				}
				cut.Headers = append(cut.Headers, kgo.RecordHeader{Key: graph.HeaderCut, Value: []byte(test.cut)})
				o.write(cut)
				var left []string
				for n, parts := range test.editions {
					l, err := o.letters.Find(o.ctx, "cut")
					if err != nil {
						t.Fatal(err)
					}
					if parts&value != 0 {
						l.Value = fmt.Append(nil, "v", n)
					}
					if parts&key != 0 {
						l.Key = append([]byte("k"), l.Key...)
					}
					if parts&headers != 0 {
						l.Headers = append(l.Headers[:len(l.Headers):len(l.Headers)], Header{Key: "more"})
					}
					if err := o.letters.Edit(o.ctx, l); err != nil {
						t.Fatal(err)
					}
					if l, err = o.letters.Find(o.ctx, "cut"); err != nil {
						t.Fatal(err)
					}
					left = append(left, l.Cut)
				}
				if got := strings.Join(left, ";"); got != test.want {
					t.Errorf("still cut are %q, want %q", got, test.want)
				}
				want := map[RedriveOutcome]int64{Redriven: 2}
				if left[len(left)-1] != "" {
					want = map[RedriveOutcome]int64{Redriven: 1, LeftCut: 1}
				}
				o.wantOutcomes(o.redrive(RedriveOptions{}), want)
			})
		})
	}
}

// TestEditOfARecordUnderAnotherKey: a record that travels under another key than its own has its
// own changed, wherever it is redriven to. Requirement G5.
func TestEditOfARecordUnderAnotherKey(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		for to, want := range map[string]string{"": "id own=new", "other": "new"} {
			o := newHarness(t)
			if err := o.driver.PipeRaw("in", []byte("id"), []byte("v"), topologytest.Header(graph.HeaderOwnKey, "old")); err != nil {
				t.Fatal(err)
			}
			o.post()
			l := o.all(DeadLetterFilter{})["v"]
			before := l
			l.SetOwnKey([]byte("new"))
			if string(before.OwnKey()) != "old" || string(l.OwnKey()) != "new" {
				t.Errorf("the own keys are %s and %s", before.OwnKey(), l.OwnKey())
			}
			if err := o.letters.Edit(o.ctx, l); err != nil {
				t.Fatal(err)
			}
			o.wantOutcomes(o.redrive(RedriveOptions{To: to, Filter: DeadLetterFilter{Keys: [][]byte{[]byte("new")}}}),
				map[RedriveOutcome]int64{Redriven: 1})
			r := o.read(cmp.Or(to, "in"))[0]
			got := string(r.Key)
			for _, h := range r.Headers {
				if h.Key == graph.HeaderOwnKey {
					got += " own=" + string(h.Value)
				}
			}
			if got != want || r.Partition != graph.PartitionOf(r.Key, harnessPartitions) {
				t.Errorf("%q[%d] has the key %s, want %s", to, r.Partition, got, want)
			}
		}
	})
}

// letterRecord returns a record of a dead-letter topic as it can be written there again.
func letterRecord(r Record) *kgo.Record {
	out := &kgo.Record{Topic: "dead", Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return out
}

// TestDeadLettersOfDifferentRecords: dead letters of different records are different dead letters,
// though they agree in what says which record it was. Requirement G5.
func TestDeadLettersOfDifferentRecords(t *testing.T) {
	t.Run("a topic that was created again", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			o := newHarness(t)
			o.die("a=1")
			o.redrive(RedriveOptions{})
			o.driver = harnessApplication(t, "app", time.Now().Add(-time.Minute))
			o.die("a=2") // at the offset of the first
			o.wantOutcomes(o.redrive(RedriveOptions{}), map[RedriveOutcome]int64{Redriven: 1})
			o.want("in", "a=1", "a=2")
		})
	})
	t.Run("headers that were copied", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			o := newHarness(t)
			o.die("a=1")
			o.redrive(RedriveOptions{})
			copied := o.read("in")[0]
			for _, value := range []string{"2", "3"} {
				copied.Value = []byte(value)
				o.dieAgain(copied)
			}
			o.wantOutcomes(o.redrive(RedriveOptions{}), map[RedriveOutcome]int64{Redriven: 2})
			o.want("in", "a=1", "a=2", "a=3")
		})
	})
	t.Run("two applications", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			o := newHarness(t)
			o.die("a=1")
			o.redrive(RedriveOptions{})
			again := o.read("in")
			o.dieAgain(again...)
			o.driver = harnessApplication(t, "other", time.Now().Add(-time.Minute))
			o.dieAgain(again...)
			ids := map[string]string{}
			counts, err := o.letters.Each(o.ctx, DeadLetterFilter{}, func(l DeadLetter) error {
				ids[l.Application] = l.ID
				if l.Deaths != 2 {
					t.Errorf("in %s it has died %d times", l.Application, l.Deaths)
				}
				return nil
			})
			if err != nil || counts.Letters != 3 || len(ids) != 2 || ids["app"] == ids["other"] {
				t.Errorf("%+v, waiting are %v, %v", counts, ids, err)
			}
		})
	})
}

// TestCopiesAreOneDeadLetter: a dead letter that is in the topic twice, because its input was read
// again, is one dead letter. Requirement G5.
func TestCopiesAreOneDeadLetter(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		o := newHarness(t)
		o.die("a=1")
		died := o.read("dead")[0]
		again := func() { o.write(letterRecord(died)) }
		again()
		o.wantOutcomes(o.redrive(RedriveOptions{}), map[RedriveOutcome]int64{Redriven: 1})
		again()
		o.wantOutcomes(o.redrive(RedriveOptions{}), map[RedriveOutcome]int64{})
		o.want("in", "a=1")
	})
}
