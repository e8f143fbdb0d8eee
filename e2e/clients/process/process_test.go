//go:build unix

package process

import "testing"

func TestConsole(t *testing.T) {
	var c console
	for _, part := range []string{
		"state: STARTING\nstate: RUN", "NING\nprocessed 12", "34 records\nsomething else\nprocessed 5",
	} {
		if n, err := c.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
	}
	if state, records := c.last(); state != "RUNNING" || records != 1234 {
		t.Errorf("read %s and %d records", state, records)
	}
}
