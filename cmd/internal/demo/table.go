package demo

import (
	"io"
	"strconv"
	"strings"
)

// table prints figures beside what they should be.
type table struct {
	out     io.Writer
	differs bool
}

const tableRule = "  ──────────────────────────────┼──────────────┼──────────────┼─────────"

func (t *table) head() {
	say(t.out, "")
	say(t.out, "  %-30s│ %12s │ %12s │", "figure", "recomputed", "pipeline")
	say(t.out, tableRule)
}

func (t *table) row(name string, want, got int) {
	verdict := "ok"
	if want != got {
		verdict, t.differs = "DIFFERS", true
	}
	say(t.out, "  %-30s│ %12s │ %12s │ %s", name, thousands(want), thousands(got), verdict)
}

func (t *table) foot() { say(t.out, tableRule) }

func thousands(n int) string {
	digits, sign := strconv.Itoa(n), ""
	if n < 0 {
		digits, sign = digits[1:], "-"
	}
	var parts []string
	for len(digits) > 3 {
		parts = append([]string{digits[len(digits)-3:]}, parts...)
		digits = digits[:len(digits)-3]
	}
	return sign + strings.Join(append([]string{digits}, parts...), ",")
}
