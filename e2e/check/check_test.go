package check_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/e2e/check"
)

func TestGoodHistory(t *testing.T) {
	report, err := run(history().events)
	if err != nil {
		t.Fatal(err)
	}
	if report.Anomalies() != 0 {
		t.Error(report)
	}
	if report.Inputs != 6 || report.Committed != 4 || report.Aborted != 1 || report.States != 9 || report.Reads == 0 {
		t.Errorf("it has judged something else: %s", report)
	}
	want := []int64{5, 2, 1, 3, 3, 3}
	if !slices.Equal(report.Outputs, want) {
		t.Errorf("outputs are %v, want %v", report.Outputs, want)
	}
}

// fault changes a good history. It fails the test if there is nothing to change.
type fault func(t *testing.T, events []check.Event) []check.Event

// each is a history with one thing wrong, and the anomalies that have to be found: all of them, and
// no other kind.
var bad = []struct {
	name  string
	kinds []check.Kind
	fault fault
}{
	{"an acknowledged input that is not in its topic", []check.Kind{check.Lost},
		func(_ *testing.T, events []check.Event) []check.Event {
			return append(events, check.Event{Sent: &check.Sent{First: 8, Outcome: check.OK, Message: []uint32{8}}})
		}},
	{"an output that is lost", []check.Kind{check.Lost, check.AbortedRead},
		dropRead(check.LogReader, copied, 2)},
	{"an output at two places", []check.Kind{check.Duplicate, check.Torn, check.Order},
		addRead(check.Records{Topic: copied, Txn: check.Txn{Producer: 300}, Offsets: []int64{50}, IDs: []uint32{1}})},
	{"an output that nobody sent", []check.Kind{check.Phantom},
		addRead(check.Records{Topic: copied, Txn: check.Txn{Producer: 300}, Offsets: []int64{50}, IDs: []uint32{99}})},
	{"a dead letter of a good input", []check.Kind{check.Phantom, check.Torn, check.Order},
		addRead(check.Records{Topic: dead, Txn: check.Txn{Producer: 300}, Offsets: []int64{50}, IDs: []uint32{2}})},
	{"a message that is accepted again", []check.Kind{check.DedupeLeak, check.Torn, check.Ledger, check.Order},
		addRead(check.Records{Topic: balances, Txn: check.Txn{Producer: 300}, Offsets: []int64{50}, IDs: []uint32{3},
			Counts: []int64{2}, Sums: []int64{20}})},
	{"a reader that gets an aborted record", []check.Kind{check.AbortedRead}, readAborted},
	{"an output in another transaction than its position", []check.Kind{check.Torn}, changeTxn},
	{"a position outside of a transaction", []check.Kind{check.Torn}, positionOutside},
	{"a transaction that is committed and aborted", []check.Kind{check.Torn, check.Lost, check.AbortedRead},
		changeMarker(copied, func(m *check.Marker) { m.Commit = false })},
	{"a transaction without its changelog", []check.Kind{check.Torn, check.StateDiffers, check.AbortedRead},
		dropRead(check.LogReader, sumsLog, 2)},
	{"a transaction that never ends in one partition", []check.Kind{check.Torn, check.AbortedRead, check.Lost}, dropMarker},
	{"a position that goes back", []check.Kind{check.Torn}, positionBack},
	{"readers that disagree", []check.Kind{check.Inconsistent},
		changeRead("follower", copied, 0, func(r *check.Records) { r.IDs = []uint32{2} })},
	{"a record processed by its own transaction", []check.Kind{check.Precommitted}, precommitted},
	{"a reader that goes back", []check.Kind{check.NonMonotonic}, repeatRead},
	{"a reader that goes past a record", []check.Kind{check.Skip}, dropRead("follower", copied, 1)},
	{"a reader that does not reach the end", []check.Kind{check.Unseen}, dropRead("follower", counts, 2)},
	{"an input that is never processed", []check.Kind{check.Unseen}, dropPositionsAndOutputs},
	{"outputs in another order", []check.Kind{check.Order}, swapOutputs},
	{"a store that is not the fold of its inputs", []check.Kind{check.StateDiffers},
		changeState("sums", func(s *check.State) { s.Totals[0].Sum++ })},
	{"a store without a row", []check.Kind{check.StateDiffers},
		changeState("sums", func(s *check.State) { s.Totals = s.Totals[1:] })},
	{"a store of ids that has forgotten one", []check.Kind{check.StateDiffers},
		changeState("ids", func(s *check.State) { s.IDs ^= check.HashID(1) })},
	{"a store that is not the fold of its changelog", []check.Kind{check.StateDiffers},
		changeState("counts", func(s *check.State) { s.Digest++ })},
	{"a store ahead of its position", []check.Kind{check.StateDiffers},
		changeState("sums", func(s *check.State) { s.Next = 0 })},
	{"a store that nobody knows", []check.Kind{check.StateDiffers},
		changeState("sums", func(s *check.State) { s.Store = "other" })},
	{"a total that is off by one contribution", []check.Kind{check.Ledger},
		changeRead(check.LogReader, balances, 2, func(r *check.Records) { r.Sums[0] += 5 })},
	{"a last stable offset that stays behind", []check.Kind{check.Stuck}, stuck},
	{"an input that failed for good and is there", []check.Kind{check.Phantom}, func(_ *testing.T, events []check.Event) []check.Event {
		events[0].Sent.Outcome = check.Fail
		return events
	}},
}

func TestBadHistories(t *testing.T) {
	caught := map[check.Kind]bool{}
	for _, c := range bad {
		t.Run(c.name, func(t *testing.T) {
			report, err := run(c.fault(t, history().events))
			if err != nil {
				t.Fatal(err)
			}
			got := slices.Sorted(maps.Keys(report.Counts))
			want := slices.Sorted(slices.Values(c.kinds))
			if !slices.Equal(got, want) {
				t.Errorf("found %v, want %v\n%s", got, want, report)
			}
			for _, k := range got {
				caught[k] = true
			}
		})
	}
	for _, k := range check.Kinds {
		if !caught[k] {
			t.Errorf("no history of this test shows %q: nobody knows whether it can be found", k)
		}
	}
}

// TestUnknownOutcomes: what was not answered may be there or not.
func TestUnknownOutcomes(t *testing.T) {
	events := history().events
	for i := range events {
		if events[i].Sent != nil {
			events[i].Sent.Outcome = check.Unknown
		}
	}
	events = append(events, check.Event{Sent: &check.Sent{First: 8, Outcome: check.Unknown, Message: []uint32{8}}})
	report, err := run(events)
	if err != nil {
		t.Fatal(err)
	}
	if report.Anomalies() != 0 {
		t.Error(report)
	}
}

// TestMarkersInAnotherOrder: the markers of two transactions of two producers come in any order;
// their positions count in the order of their records.
func TestMarkersInAnotherOrder(t *testing.T) {
	events := history().events
	// The position of producer 101 waits for its marker until the ones of all later transactions
	// are written.
	var late check.Event
	for i, e := range slices.Backward(events) {
		if e.Marker != nil && e.Marker.Topic == check.OffsetsTopic && e.Marker.Producer == 101 {
			late, events = e, slices.Delete(events, i, i+1)
			break
		}
	}
	next := check.Txn{Producer: 102}
	events = append(events,
		check.Event{Position: &check.Position{Topic: in, Offset: 1000, Next: 6, Txn: next}},
		check.Event{Marker: &check.Marker{Topic: check.OffsetsTopic, Offset: 1001, Producer: 102, Commit: true}}, late)
	report, err := run(events)
	if err != nil {
		t.Fatal(err)
	}
	if report.Anomalies() != 0 {
		t.Error(report)
	}
}

// TestUnfinishedHistory: without a quiesced event, what is still on its way is no anomaly.
func TestUnfinishedHistory(t *testing.T) {
	events := dropPositionsAndOutputs(t, history().events)
	events = slices.DeleteFunc(events, func(e check.Event) bool { return e.Quiesced != nil || e.State != nil })
	report, err := run(events)
	if err != nil {
		t.Fatal(err)
	}
	if report.Counts[check.Unseen] != 0 || report.Counts[check.Lost] != 0 {
		t.Error(report)
	}
}

func TestFileForm(t *testing.T) {
	var file bytes.Buffer
	w := check.NewWriter(&file)
	events := history().events
	for _, e := range events {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	var back []check.Event
	for e, err := range check.Read(bytes.NewReader(file.Bytes())) {
		if err != nil {
			t.Fatal(err)
		}
		back = append(back, e)
	}
	report, err := run(back)
	if err != nil {
		t.Fatal(err)
	}
	if len(back) != len(events) || report.Anomalies() != 0 || report.States != 9 {
		t.Errorf("%d of %d events came back: %s", len(back), len(events), report)
	}
	for _, err := range check.Read(strings.NewReader("{\"at\":1}\n{\"at\":")) {
		if err != nil && !strings.Contains(err.Error(), "line 2") {
			t.Errorf("the error %q does not name the line", err)
		}
	}
}
