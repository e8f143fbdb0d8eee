package instance

import (
	"slices"
	"strings"
	"testing"
)

// TestLogTellsOfLines: lines count when they are whole, in the order in which they are waited for,
// however they come.
func TestLogTellsOfLines(t *testing.T) {
	l := NewLog(t, "nobody")
	said := l.Await("one", "two")
	happened := func() (n int) {
		for _, s := range said {
			select {
			case <-s:
				n++
			default:
			}
		}
		return n
	}
	for _, step := range []struct {
		text string
		want int
	}{{"two\non", 0}, {"e", 0}, {"\nnot two\n", 1}, {"tw", 1}, {"o\none\n", 2}, {"two\n", 2}} {
		if n, err := l.Write([]byte(step.text)); n != len(step.text) || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
		if got := happened(); got != step.want {
			t.Errorf("after %q %d lines have been said, want %d", step.text, got, step.want)
		}
	}
	if got, want := l.String(), "two\none\nnot two\ntwo\none\ntwo\n"; got != want {
		t.Errorf("the log is %q, want %q", got, want)
	}
	if got, want := l.Lines("t", "wo"), []string{"two\n", "not two\n", "two\n", "two\n"}; !slices.Equal(got, want) {
		t.Errorf("the lines are %q, want %q", got, want)
	}
	if got := l.Lines("one", "two"); len(got) > 0 {
		t.Errorf("the lines are %q, want none", got)
	}
}

// TestLogKeepsItsEnd: a log that never ends is not kept for ever.
func TestLogKeepsItsEnd(t *testing.T) {
	l := NewLog(t, "nobody")
	chunk := strings.Repeat("x", 1<<20)
	for range 3 * keepBytes / len(chunk) {
		if _, err := l.Write([]byte(chunk)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Write([]byte("end")); err != nil {
		t.Fatal(err)
	}
	if text := l.String(); len(text) < keepBytes || len(text) > 2*keepBytes+len(chunk) || !strings.HasSuffix(text, "xend") {
		t.Errorf("%d bytes are kept", len(text))
	}
	if text := l.tail(); len(text) > showBytes+10 || !strings.HasPrefix(text, "...\n") || !strings.HasSuffix(text, "xend") {
		t.Errorf("%d bytes are shown", len(text))
	}
}
