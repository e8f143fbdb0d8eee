package admin

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/topology"
)

// TestG5Edit: an edition takes the place of the letter, in its order, and the letter as it died stays in the topic.
func TestG5Edit(t *testing.T) {
	o := newOffice(t)
	o.die("a=1", "a=2", "b=3")
	first := o.all(LetterFilter{})["1"]
	stale := first
	first.Value, first.Headers = []byte("one"), append(first.Headers, Header{"fixed", []byte("yes")})
	if err := o.letters.Edit(o.ctx, first); err != nil {
		t.Fatal(err)
	}
	if err := o.letters.Edit(o.ctx, stale); !errors.Is(err, ErrLetterEdited) {
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
	third := o.all(LetterFilter{})["3"]
	third.Key = []byte("c")
	if err := o.letters.Edit(o.ctx, third); err != nil {
		t.Fatal(err)
	}
	o.redrive(RedriveOptions{})
	o.want("in", "a=eins", "a=2", "c=3")
	for _, r := range o.read("in") {
		if string(r.Key) == "c" && r.Partition != topology.PartitionOf(r.Key, officePartitions) {
			t.Errorf("the new key is in partition %d", r.Partition)
		}
		if string(r.Value) == "eins" && string(r.Headers[2].Value) != "yes" {
			t.Errorf("the headers are %v", r.Headers)
		}
	}
	if err := o.letters.Edit(o.ctx, found); !errors.Is(err, ErrLetterRedriven) {
		t.Errorf("editing what was redriven returned %v", err)
	}
	if _, err := o.letters.Find(o.ctx, "x"); !errors.Is(err, ErrNoLetter) {
		t.Errorf("Find returned %v", err)
	}
}

// TestG5Identities: letters of different records are different letters, though they agree in what says which record it was.
func TestG5Identities(t *testing.T) {
	t.Run("a topic that was created again", func(t *testing.T) {
		o := newOffice(t)
		o.die("a=1")
		o.redrive(RedriveOptions{})
		o.driver = officeApplication(t, "app", time.Now().Add(-time.Minute))
		o.die("a=2") // at the offset of the first
		o.wantOutcomes(o.redrive(RedriveOptions{}), map[RedriveOutcome]int64{Redriven: 1})
		o.want("in", "a=1", "a=2")
	})
	t.Run("headers that were copied", func(t *testing.T) {
		o := newOffice(t)
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
	t.Run("two applications", func(t *testing.T) {
		o := newOffice(t)
		o.die("a=1")
		o.redrive(RedriveOptions{})
		again := o.read("in")
		o.dieAgain(again...)
		o.driver = officeApplication(t, "other", time.Now().Add(-time.Minute))
		o.dieAgain(again...)
		ids := map[string]string{}
		counts, err := o.letters.Each(o.ctx, LetterFilter{}, func(l DeadLetter) error {
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
}

// TestG5Copies: a letter that is in the topic twice, because its input was read again, is one letter.
func TestG5Copies(t *testing.T) {
	o := newOffice(t)
	o.die("a=1")
	died := o.read("dead")[0]
	again := func() {
		r := &kgo.Record{Topic: "dead", Partition: died.Partition, Key: died.Key, Value: died.Value, Timestamp: died.Timestamp}
		for _, h := range died.Headers {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		o.write(r)
	}
	again()
	o.wantOutcomes(o.redrive(RedriveOptions{}), map[RedriveOutcome]int64{Redriven: 1})
	again()
	o.wantOutcomes(o.redrive(RedriveOptions{}), map[RedriveOutcome]int64{})
	o.want("in", "a=1")
}
