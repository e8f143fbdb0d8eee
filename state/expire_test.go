package state

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSweepTakesOnlyWhatIsOver runs sweeps of any size over random versions while time advances.
// After each sweep it compares the visible values at all readable times with those before. In the
// end no removable row is left.
func TestSweepTakesOnlyWhatIsOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkSweeps(t, nil) })
}

// TestSweepControls: sweeps that take more are found.
func TestSweepControls(t *testing.T) {
	for name, broken := range map[string]func(w *sweep){
		"the oldest is too far":                     func(w *sweep) { w.oldest += 3 },
		"deleted versions go before the older ones": func(w *sweep) { w.from = nil },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range 500 {
				rows := sweepRows().Example(seed)
				if sweeps(rows, broken) != nil {
					return
				}
			}
			t.Error("no difference was found")
		})
	}
}

func checkSweeps(t *rapid.T, broken func(w *sweep)) {
	if err := sweeps(sweepRows().Draw(t, "rows"), broken); err != nil {
		t.Fatal(err)
	}
}

var sweepKeys = []string{"", "a", "a\x00", "b", "a\x00\x00\x00\x00\x00\x00\x00\x05", "a\x00\x00\x00\x00\x00\x00\x00\x05\x00"}

type sweepCase struct {
	rows []Entry
	// budget is how many rows each sweep looks at.
	budget int
}

func sweepRows() *rapid.Generator[sweepCase] {
	return rapid.Custom(func(t *rapid.T) sweepCase {
		rows := map[string]string{}
		for range rapid.IntRange(0, 40).Draw(t, "n") {
			key := versionKey([]byte(rapid.SampledFrom(sweepKeys).Draw(t, "key")), rapid.Int64Range(0, 15).Draw(t, "time"))
			rows[string(key)] = rapid.SampledFrom([]string{"\x00", "\x01v"}).Draw(t, "value")
		}
		c := sweepCase{budget: rapid.IntRange(1, 20).Draw(t, "budget")}
		for key, value := range rows {
			c.rows = append(c.rows, Entry{Key: []byte(key), Value: []byte(value)})
		}
		slices.SortFunc(c.rows, func(a, b Entry) int { return bytes.Compare(a.Key, b.Key) })
		return c
	})
}

// sweeps runs one sweep at each time, and then enough to come to an end.
func sweeps(c sweepCase, broken func(w *sweep)) error {
	rows := slices.Clone(c.rows)
	const retention, end = 6, 30
	var next []byte
	passes := 0
	for now := int64(15); passes < 2; now++ {
		now = min(now, end)
		oldest := now - retention + 1
		before := seen(rows, oldest)
		w := newSweep(next, oldest, now)
		if broken != nil {
			broken(w)
		}
		n, ended := 0, true
		for _, e := range rows {
			if bytes.Compare(e.Key, next) < 0 {
				continue
			}
			if n == c.budget {
				ended = false
				break
			}
			n++
			w.step(e)
		}
		w.end(ended)
		for _, key := range w.over {
			rows = slices.DeleteFunc(rows, func(e Entry) bool { return bytes.Equal(e.Key, key) })
		}
		if after := seen(rows, oldest); after != before {
			return fmt.Errorf("at %d: %s became %s", now, before, after)
		}
		if !ended && bytes.Compare(w.next, next) <= 0 {
			return fmt.Errorf("at %d: a sweep that began at %q goes on at %q", now, next, w.next)
		}
		if next = w.next; ended && now == end {
			passes++
		}
	}
	if c.budget < len(c.rows) {
		return nil // a deleted version of a key that no sweep sees as a whole stays
	}
	for _, e := range rows {
		if e.Value[0] == versionDeleted {
			return fmt.Errorf("the deleted version %q is still there", e.Key)
		}
	}
	return nil
}

// seen describes the visible versions of each key from the oldest readable time on.
func seen(rows []Entry, oldest int64) string {
	var b bytes.Buffer
	for _, key := range sweepKeys {
		for t := max(oldest, 0); t <= 32; t++ {
			value := "none"
			for _, e := range rows {
				if len(e.Key) == len(key)+timeSize && string(e.Key[:len(key)]) == key && versionTime(e.Key) <= t {
					if value = "none"; e.Value[0] == versionValue {
						value = fmt.Sprint(versionTime(e.Key))
					}
				}
			}
			fmt.Fprintf(&b, "%q@%d=%s ", key, t, value)
		}
	}
	return b.String()
}
