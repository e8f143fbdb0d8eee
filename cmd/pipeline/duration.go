package pipeline

import (
	"strconv"
	"time"

	"github.com/onceward/onceward/cmd/internal/yamldoc"
)

// century is longer than what the windows of a topology can be.
const century = 100 * 365 * 24 * time.Hour

// duration reads a time of whole milliseconds that is at least least. It is 0 if v is missing or
// wrong.
func duration(v yamldoc.Value, least time.Duration) time.Duration {
	text := v.Word()
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil || d%time.Millisecond != 0:
		v.Mistake("must be a time of whole milliseconds, such as 90s or 10m, and is %q", text)
	case d < least:
		v.Mistake("must be at least %s, and is %s", least, text)
	case d > century:
		v.Mistake("must be at most 100 years, and is %s", text)
	default:
		return d
	}
	return 0
}

// bound reads a number from one to most. It is 0 if v is missing or wrong.
func bound(v yamldoc.Value, most int64) int64 {
	text := v.Word()
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil || n < 1:
		v.Mistake("must be a number of at least 1, and is %q", text)
		return 0
	case n > most:
		v.Mistake("must be at most %d, and is %q", most, text)
		return 0
	}
	return n
}
