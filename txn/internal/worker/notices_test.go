package worker

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestNoticesAreCounted: a reason is logged once with its first record, and then once a minute with
// the number of further ones, to the end.
func TestNoticesAreCounted(t *testing.T) {
	var out bytes.Buffer
	n := newNotices(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
				return slog.Attr{}
			}
			return a
		},
	})))
	at := time.Unix(1000, 0)
	want := func(lines ...string) {
		t.Helper()
		if got := strings.TrimSpace(out.String()); got != strings.Join(lines, "\n") {
			t.Errorf("the log has\n%s\nwant\n%s", got, strings.Join(lines, "\n"))
		}
		out.Reset()
	}
	parse, other := reason{"left", "parse", "poison"}, reason{"left", "other", "poison"}
	for i := range 20_000 {
		n.tell(at, parse, 1, "record", i)
	}
	n.tell(at, other, 5, "record", "x")
	want("msg=left record=0", "msg=left record=x")
	n.flush(at.Add(noticeEvery - 1))
	want("")
	n.flush(at.Add(noticeEvery))
	want("msg=left node=parse why=poison more=19999")
	n.tell(at.Add(noticeEvery), other, 1, "record", "y") // after a quiet minute
	want("msg=left record=y")
	n.tell(at.Add(noticeEvery), parse, 2)
	n.end()
	want("msg=left node=parse why=poison more=2")
}
