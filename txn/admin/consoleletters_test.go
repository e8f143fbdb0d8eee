package admin

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/console"
)

// consoleLetters returns what the console of an application on the broker has.
func (o *harness) consoleLetters() console.Letters {
	return ConsoleLetters(Config{Brokers: o.broker.Brokers(), Dialer: o.client.cfg.Dialer})
}

// inWords shows the content of a record as it is.
func inWords(_ string, key, value []byte) console.Content {
	return console.Content{Key: string(key), Value: string(value)}
}

// newest returns the values of the dead letters that the console lists.
func (o *harness) newest(f console.LetterFilter, most int) (values []string, list console.LetterList) {
	o.t.Helper()
	list, err := o.consoleLetters().Newest(o.ctx, "dead", f, most, inWords)
	if err != nil {
		o.t.Fatal(err)
	}
	for i, l := range list.Letters {
		values = append(values, l.Content.Value)
		if i > 0 && l.LastFailure.After(list.Letters[i-1].LastFailure) {
			o.t.Errorf("%s failed after %s, and stands behind it", l.ID, list.Letters[i-1].ID)
		}
	}
	slices.Sort(values)
	return values, list
}

func TestConsoleLists(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		o := newHarness(t)
		if values, list := o.newest(console.LetterFilter{}, 10); len(values) > 0 || list.More || list.Looked != 0 {
			t.Errorf("an empty topic has %+v", list)
		}
		o.die("a=1", "b=2", "a=3", "c=poison")
		for name, c := range map[string]struct {
			filter console.LetterFilter
			want   string
		}{
			"all":           {console.LetterFilter{}, "1 2 3 poison"},
			"class":         {console.LetterFilter{Class: graph.Poison}, "poison"},
			"source":        {console.LetterFilter{Topic: "in"}, "1 2 3 poison"},
			"other source":  {console.LetterFilter{Topic: "other"}, ""},
			"with redriven": {console.LetterFilter{Redriven: true}, "1 2 3 poison"},
		} {
			if values, list := o.newest(c.filter, 10); strings.Join(values, " ") != c.want || list.More || list.Looked != 0 {
				t.Errorf("%s: the list has %q, want %q (%+v)", name, values, c.want, list)
			}
		}
		if values, list := o.newest(console.LetterFilter{}, 3); len(values) != 3 || !list.More {
			t.Errorf("of four the list has %q, and says that there are more: %t", values, list.More)
		}
		letter := o.all(DeadLetterFilter{})["poison"]
		edited := letter
		edited.Value = []byte("put right")
		if err := o.letters.Edit(o.ctx, edited); err != nil {
			t.Fatal(err)
		}
		_, list := o.newest(console.LetterFilter{Class: graph.Poison}, 10)
		if len(list.Letters) != 1 {
			t.Fatalf("the list has %+v", list)
		}
		got, want := list.Letters[0], console.Position{Topic: "in", Partition: letter.Origin.Partition, Offset: letter.Origin.Offset}
		if got.ID != letter.ID || got.Edition != 1 || got.Content.Value != "put right" || got.Origin != want || got.Node != "judge" || got.Attempts != letter.Attempts {
			t.Errorf("the letter is shown as %+v, want %s from %+v", got, letter.ID, want)
		}
	})
}

// TestConsoleReadsTheEnd: a list reads the end of a large topic. It shows for each dead letter there
// whether it was redriven or edited.
func TestConsoleReadsTheEnd(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		o := newHarness(t)
		for range 5 {
			o.die("a=old")
		}
		o.die("a=new")
		found, looked, err := o.letters.newest(o.ctx, DeadLetterFilter{}, newestOptions{most: 10, records: 2 * harnessPartitions, content: inWords})
		if err != nil || looked != 2*harnessPartitions || len(found) != 2 || found[0].Content.Value != "new" && found[1].Content.Value != "new" {
			t.Errorf("the end has %d letters (%d looked at), %v", len(found), looked, err)
		}
		found, looked, err = o.letters.newest(o.ctx, DeadLetterFilter{}, newestOptions{most: 10, records: 100})
		if err != nil || looked != 0 || len(found) != 6 {
			t.Errorf("the topic has %d letters (%d looked at), %v", len(found), looked, err)
		}
		found, _, err = o.letters.newest(o.ctx, DeadLetterFilter{}, newestOptions{most: 1, records: 100})
		if err != nil || len(found) != 1 {
			t.Errorf("of one that was asked for there are %d letters, %v", len(found), err)
		}
		// A dead letter is more than 128 bytes, and is read twice. Of 100 records 12 are tried, and then one
		// of each partition.
		found, looked, err = o.letters.newest(o.ctx, DeadLetterFilter{}, newestOptions{most: 10, records: 100, bytes: 4 << 10, content: inWords})
		if err != nil || looked == 0 || len(found) == 0 || len(found) > 4 {
			t.Errorf("of a topic that is too large there are %d letters (%d looked at), %v", len(found), looked, err)
		}
		if _, _, err = o.letters.newest(o.ctx, DeadLetterFilter{}, newestOptions{most: 10, records: 100, bytes: 100}); !errors.Is(err, errLarge) {
			t.Errorf("a record that is too large is listed: %v", err)
		}
	})
}

// redriveFrom redrives dead letters from the console, and returns the outcomes in their order.
func (o *harness) redriveFrom(named []console.LetterName, dry bool) (outcomes []string) {
	o.t.Helper()
	got, err := o.consoleLetters().Redrive(o.ctx, "dead", named, dry)
	if err != nil {
		o.t.Fatal(err)
	}
	for i, one := range got {
		if one.LetterName != named[i] || (one.Outcome == console.Changed) != (one.To == "") {
			o.t.Errorf("outcome %d is %+v", i, one)
		}
		outcomes = append(outcomes, one.Outcome)
	}
	return outcomes
}

// TestConsoleRedrives: the dead letters that a person names are written once, however often that is
// asked for. Without a name none is.
func TestConsoleRedrives(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		o := newHarness(t)
		o.die("a=1", "b=2", "a=3")
		one, three := o.all(DeadLetterFilter{})["1"], o.all(DeadLetterFilter{})["3"]
		named := []console.LetterName{nameOf(&three), nameOf(&one)}
		if got := o.redriveFrom(named, true); !slices.Equal(got, []string{"redriven", "redriven"}) {
			t.Errorf("the check says %q", got)
		}
		o.want("in")
		if got := o.redriveFrom(named, false); !slices.Equal(got, []string{"redriven", "redriven"}) {
			t.Errorf("the redrive says %q", got)
		}
		if got := o.redriveFrom(named, false); !slices.Equal(got, []string{console.Changed, console.Changed}) {
			t.Errorf("the same redrive again says %q", got)
		}
		o.want("in", "a=1", "a=3")
		if values, _ := o.newest(console.LetterFilter{}, 10); !slices.Equal(values, []string{"2"}) {
			t.Errorf("the list has %q, want the one that waits", values)
		}
		_, list := o.newest(console.LetterFilter{Redriven: true}, 10)
		if n := len(slices.DeleteFunc(list.Letters, func(l console.Letter) bool { return l.Redriven == nil })); n != 2 {
			t.Errorf("the list says of %d letters that they were redriven", n)
		}
		if _, err := o.consoleLetters().Redrive(o.ctx, "dead", nil, false); err == nil {
			t.Error("a redrive without a letter is taken")
		}
		o.want("in", "a=1", "a=3")
	})
}

// TestConsoleRedrivesWhatWasListed: a later death, another dead letter with the same id, and an
// edition after the list are not written.
func TestConsoleRedrivesWhatWasListed(t *testing.T) {
	redriven, changed := []string{"redriven"}, []string{console.Changed}
	virtual.Test(t, func(t *testing.T) {
		o := newHarness(t)
		o.die("a=1")
		first := o.all(DeadLetterFilter{})["1"]
		named := []console.LetterName{nameOf(&first)}
		if got := o.redriveFrom(named, false); !slices.Equal(got, redriven) {
			t.Errorf("the redrive says %q", got)
		}
		copied := o.read("in")[0]
		for _, value := range []string{"2", "3"} {
			copied.Value = []byte(value)
			o.dieAgain(copied)
		}
		if got := o.redriveFrom(named, false); !slices.Equal(got, changed) {
			t.Errorf("after another death the same redrive says %q", got)
		}
		o.want("in", "a=1")
		_, list := o.newest(console.LetterFilter{}, 10)
		if len(list.Letters) != 2 || list.Letters[0].ID != list.Letters[1].ID {
			t.Fatalf("the list has %+v, want two dead letters with the same id", list.Letters)
		}
		second := o.all(DeadLetterFilter{})["2"]
		if got := o.redriveFrom([]console.LetterName{nameOf(&second)}, false); !slices.Equal(got, redriven) {
			t.Errorf("the redrive of one of two says %q", got)
		}
		o.want("in", "a=1", "a=2")
		third := o.all(DeadLetterFilter{})["3"]
		edited := third
		edited.Value = []byte("edited")
		if err := o.letters.Edit(o.ctx, edited); err != nil {
			t.Fatal(err)
		}
		if got := o.redriveFrom([]console.LetterName{nameOf(&third)}, false); !slices.Equal(got, changed) {
			t.Errorf("after an edition the redrive says %q", got)
		}
		o.want("in", "a=1", "a=2")
		edited = o.all(DeadLetterFilter{})["edited"]
		if got := o.redriveFrom([]console.LetterName{nameOf(&edited)}, false); !slices.Equal(got, redriven) {
			t.Errorf("the redrive of the edition says %q", got)
		}
		o.want("in", "a=1", "a=2", "a=edited")
	})
}
