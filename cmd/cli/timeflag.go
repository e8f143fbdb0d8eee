package cli

import (
	"strconv"
	"time"
)

// timeOf reads a time as it is given in a flag: RFC 3339, milliseconds since the epoch, or how long
// ago. An empty text is the zero time.
func timeOf(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms >= 0 {
		return time.UnixMilli(ms), nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return time.Now().Add(-ago), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, usage("%s: %q is no time; give one such as 2026-01-31T08:00:00Z, milliseconds since the epoch, or how long ago, such as 2h", flag, text)
	}
	return t, nil
}
