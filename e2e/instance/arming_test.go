//go:build onceward_failpoints

package instance

import (
	"testing"
	"time"

	"github.com/onceward/onceward/txn"
)

func TestParse(t *testing.T) {
	all, err := parseAll("end-after=error;ask-before=stall:3s,skip=2,times=4", txn.Failpoints())
	if err != nil {
		t.Fatal(err)
	}
	if a := all["end-after"]; a == nil || a.arming != (arming{point: "end-after", action: "error", times: 1}) {
		t.Errorf("end-after is %+v", a)
	}
	want := arming{point: "ask-before", action: "stall", wait: 3 * time.Second, skip: 2, times: 4}
	if a := all["ask-before"]; a == nil || a.arming != want {
		t.Errorf("ask-before is %+v", a)
	}
	for _, wrong := range []string{
		"nowhere=kill", "end-after", "end-after=explode", "end-after=delay:x", "end-after=kill,skip=x", "end-after=kill,often=1",
		"end-after=kill;end-after=error", "end-after=kill;",
	} {
		if _, err := parseAll(wrong, txn.Failpoints()); err == nil {
			t.Errorf("%q was taken", wrong)
		}
	}
}
