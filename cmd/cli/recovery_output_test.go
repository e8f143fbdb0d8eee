package cli

import (
	"strings"
	"testing"

	"github.com/onceward/onceward/txn/admin"
)

// TestReportOfGivenUpRecords: the report names the parked records that are not processed any more.
func TestReportOfGivenUpRecords(t *testing.T) {
	var out strings.Builder
	err := writeReport(&out, admin.Report{Action: "adopt", Tasks: []admin.TaskReport{{
		Task: "in_0", Changed: true, Reason: "offsets were moved",
		GivenUp: []admin.GivenUpReport{{Store: "in.parked", Records: 3}, {Store: "other.parked", Records: -1}},
	}}})
	const want = "task in_0: adopt: offsets were moved\n" +
		"  given up in store in.parked: 3 parked records, which are not processed any more\n" +
		"  given up in store other.parked: an unknown number of parked records, which are not processed any more\n"
	if err != nil || out.String() != want {
		t.Errorf("wrote %q, %v, want %q", out.String(), err, want)
	}
}

// TestReportOfTheMode: what is said to people names the mode of adopted state where no commit of
// the task did, and who says it.
func TestReportOfTheMode(t *testing.T) {
	var out strings.Builder
	err := writeReport(&out, admin.Report{Action: "adopt", Tasks: []admin.TaskReport{
		{Task: "in_0", Changed: true, Reason: "no metadata", Mode: "BACKFILL", ModeAssumed: true},
		{Task: "in_1", Changed: true, Reason: "no metadata", Mode: "LIVE"},
		{Task: "in_2", Changed: true, Reason: "offsets were moved"},
	}})
	const want = "task in_0: adopt: no metadata\n" +
		"  mode: BACKFILL, as the other tasks of the application; no commit of the task said it\n" +
		"task in_1: adopt: no metadata\n" +
		"  mode: LIVE, as --mode says; no commit of the task said it\n" +
		"task in_2: adopt: offsets were moved\n"
	if err != nil || out.String() != want {
		t.Errorf("wrote %q, %v, want %q", out.String(), err, want)
	}
}
