package topology_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// timeInValue reads the time of a record from its value, in milliseconds.
func timeInValue(r word) (time.Time, error) {
	n, err := strconv.ParseInt(r.Value, 10, 64)
	if err != nil {
		return time.Time{}, topology.Fail(topology.Validation, schemas.Reason("no time"))
	}
	return time.UnixMilli(n), nil
}

// TestEventTime: everything goes by it, but a dead letter keeps the timestamp of the record.
func TestEventTime(t *testing.T) {
	var saw []string
	k := tableTask(t, func(b *topology.Builder) {
		s := topology.From(b, leftTopic, topology.EventTime(func(r word) (time.Time, error) {
			saw = append(saw, fmt.Sprintf("%d/%d", r.Timestamp, r.StreamTime()))
			return timeInValue(r)
		}))
		s.Peek("see", func(r word) error {
			saw = append(saw, fmt.Sprintf("%d/%d", r.Timestamp, r.StreamTime()))
			return nil
		}).Into(resultTopic)
	})
	wantLines(t, k.script("left 7 a 5000", "left 9000 b 3000"), "a=5000@5000", "b=3000@3000")
	none := strconv.FormatInt(state.NoTime, 10)
	if got := fmt.Sprint(saw); got != "[7/"+none+" 5000/5000 9000/5000 3000/5000]" {
		t.Errorf("time and stream time are %s", got)
	}
	if k.streamTime != 5000 {
		t.Errorf("the stream time is %d", k.streamTime)
	}
	v := want(t, k.send("left", 77, "a", "no number"), topology.DeadLetter)
	if v.Failure.Class != topology.Validation || v.Failure.Node != "left-source" || v.Outputs[0].Timestamp != 77 {
		t.Errorf("the failure is %v, the dead letter at %d", v.Failure, v.Outputs[0].Timestamp)
	}
}

// TestEventTimeFiresPunctuations: what is due goes by the event time as well.
func TestEventTimeFiresPunctuations(t *testing.T) {
	k := tableTask(t, func(b *topology.Builder) {
		n := topology.Stateful(topology.From(b, leftTopic, topology.EventTime(timeInValue)), "tick")
		out := topology.Outlet[string, string](n, "out")
		n.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
			emit := out.In(t)
			t.OnStreamTime(time.Second, func(c *topology.Context, at time.Time) error {
				return emit(c, word{Key: "tick", Value: strconv.FormatInt(at.UnixMilli(), 10)})
			})
			return func(*topology.Context, word) error { return nil }, nil
		})
		out.Stream().Into(resultTopic)
	})
	wantLines(t, k.script("left 90000 a 500", "left 1 a 2500", "left 95000 a 2600"), "", "tick=2000@2000", "")
}

// TestOnInvalidTimestamp: refused, left out and counted, or given the stream time; also for what
// EventTime returns.
func TestOnInvalidTimestamp(t *testing.T) {
	open := func(opts ...topology.SourceOption) *task {
		return tableTask(t, func(b *topology.Builder) { topology.From(b, leftTopic, opts...).Into(resultTopic) })
	}
	refusing := open()
	if v := want(t, refusing.send("left", -1, "a", "x"), topology.DeadLetter); v.Failure.Class != topology.Validation {
		t.Errorf("the failure is %v", v.Failure)
	}
	skipping := open(topology.OnInvalidTimestamp(topology.SkipInvalid))
	wantLines(t, skipping.script("left -1 a x", "left 5 a y", "left -7 a z"), "", "a=y@5", "")
	if got := countsOf(skipping.send("left", -1, "a", "x")); got != "left-source.invalid-timestamp=1" || skipping.streamTime != 5 {
		t.Errorf("counted are %q, the stream time is %d", got, skipping.streamTime)
	}
	guessing := open(topology.OnInvalidTimestamp(topology.StreamTimeForInvalid))
	if v := want(t, guessing.send("left", -1, "a", "x"), topology.DeadLetter); v.Failure.Class != topology.Validation {
		t.Errorf("the failure of the first record is %v", v.Failure)
	}
	wantLines(t, guessing.script("left 5 a x", "left 3 a y", "left -1 a z"), "a=x@5", "a=y@3", "a=z@5")
	both := open(topology.EventTime(timeInValue), topology.OnInvalidTimestamp(topology.SkipInvalid))
	wantLines(t, both.script("left 5 a -3", "left -5 a 4"), "", "a=4@4")
	for what, want := range map[topology.InvalidTimestamp]string{
		topology.RefuseInvalid: "refuse", topology.SkipInvalid: "skip", topology.StreamTimeForInvalid: "stream time",
		9: "invalid timestamp(9)",
	} {
		if what.String() != want {
			t.Errorf("%d is called %s", what, what)
		}
	}
}

// TestTimeOfWhatIsLeftOut: a record without a key that its source leaves out moves the stream time
// by its timestamp, unless that is invalid or too far ahead of the clock, or the time is in the
// record, where nobody has looked for it.
func TestTimeOfWhatIsLeftOut(t *testing.T) {
	open := func(opts ...topology.SourceOption) *task {
		return tableTask(t, func(b *topology.Builder) {
			topology.From(b, leftTopic, append(opts, topology.SkipNullKeys())...).Into(resultTopic)
		})
	}
	plain := open()
	if plain.script("left -1 - x"); plain.streamTime != state.NoTime {
		t.Errorf("the stream time is %d after an invalid timestamp", plain.streamTime)
	}
	if plain.script("left 5 - x"); plain.streamTime != 5 {
		t.Errorf("the stream time is %d, want 5", plain.streamTime)
	}
	if plain.send("left", now.Add(2*time.Hour).UnixMilli(), "-", "x"); plain.streamTime != 5 {
		t.Errorf("the stream time is %d after a timestamp two hours ahead of the clock, want 5", plain.streamTime)
	}
	inValue := open(topology.EventTime(timeInValue))
	if inValue.script("left 5 a 3", "left 9000 - 4"); inValue.streamTime != 3 {
		t.Errorf("the stream time is %d, want that of the record that was read, 3", inValue.streamTime)
	}
}

// TestGraphEventTime: the time by which a record takes its turn, without counting for anything.
func TestGraphEventTime(t *testing.T) {
	panicking := errors.New("panic")
	k := tableTask(t, func(b *topology.Builder) {
		left := topology.From(b, leftTopic, topology.EventTime(func(r word) (time.Time, error) {
			if r.Value == "panic" {
				panic(panicking)
			}
			return timeInValue(r)
		}))
		left.Merge("merge", topology.From(b, rightTopic)).Into(resultTopic)
	})
	for _, test := range []struct {
		topic, value string
		want         int64
	}{
		{"left", "42", 42}, {"left", "-42", -42}, {"left", "no number", 7}, {"left", "panic", 7},
		{"right", "42", 7}, {"other", "42", 7},
	} {
		in := graph.Input{
			Topic: test.topic, Timestamp: 7, Key: []byte("a"), Value: []byte(test.value), StreamTimeBefore: state.NoTime,
		}
		if got := k.graph.EventTime(in); got != test.want {
			t.Errorf("the event time of %s %q is %d, want %d", test.topic, test.value, got, test.want)
		}
	}
	if got := k.graph.EventTime(graph.Input{Topic: "left", Timestamp: 7}); got != 7 {
		t.Errorf("the event time of a record that cannot be decoded is %d", got)
	}
}
