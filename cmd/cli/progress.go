package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
)

// progressFlag is for commands that can take long.
type progressFlag struct {
	Progress bool `env:"ONCEWARD_PROGRESS" help:"Say on the standard error how far it is, also where that is no terminal."`
}

// progressEvery is how often people are told how far something is where what was said stays. A
// terminal has one line for it, which is written anew whenever there is news.
const progressEvery = 5 * time.Second

// shown reports whether anybody wants to know.
func (f progressFlag) shown(p *process) bool { return f.Progress || isTerminal(p.err) }

// meter returns what says how far a command is, nil where nobody wants to know.
func (f progressFlag) meter(p *process) *meter {
	if !f.shown(p) {
		return nil
	}
	return &meter{out: p.err, terminal: isTerminal(p.err), said: time.Now()}
}

// isTerminal reports whether somebody may be looking at what is written to w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull) // the other character device that output goes to
	return err != nil || !os.SameFile(info, null)
}

// meter says how far a reading of changelogs is. It belongs to one goroutine at a time. What cannot
// be written is lost: the work goes on.
type meter struct {
	out      io.Writer
	terminal bool
	// verb is what is done.
	verb string
	said time.Time
	// line is what stands on the terminal, or what was said last.
	line string
}

// lineMax is the length of a line of a terminal that is written anew: one that is broken cannot be.
const lineMax = 79

// tell is a callback of package admin.
func (m *meter) tell(p admin.Progress) {
	ended := p.Left == 0
	if !m.terminal && !ended && time.Since(m.said) < progressEvery {
		return
	}
	what := "task " + p.Task.String()
	if p.Store != "" {
		what = "store " + p.Store + " of " + what
	}
	line := fmt.Sprintf("%s %s: %s", m.verb, what, reading{p.Records, p.Bytes, p.Left, p.Rate, p.Remaining})
	if line == m.line {
		return
	}
	m.said, m.line = time.Now(), line
	if m.terminal {
		_, _ = fmt.Fprintf(m.out, "\r\x1b[K%.*s", lineMax, line)
		return
	}
	_, _ = fmt.Fprintln(m.out, line)
}

// end takes the line off a terminal, so that what follows has a line of its own.
func (m *meter) end() {
	if m != nil && m.terminal && m.line != "" {
		_, _ = io.WriteString(m.out, "\r\x1b[K")
	}
}

// callback is nil for nobody, so that package admin need not tell.
func (m *meter) callback(verb string) func(admin.Progress) {
	if m == nil {
		return nil
	}
	m.verb = verb
	return m.tell
}

// reading is how far one is: offsets are left and passed, of which not every one has a record.
type reading struct {
	records, bytes, left int64
	rate                 float64
	remaining            time.Duration
}

func (r reading) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%d records, %.1f MiB", r.records, float64(r.bytes)/(1<<20))
	if r.left > 0 {
		fmt.Fprintf(&s, ", %d left", r.left)
		if r.rate > 0 {
			fmt.Fprintf(&s, ", %.0f/s, %s to go", r.rate, r.remaining.Round(time.Second))
		}
	}
	return s.String()
}

// followRestores logs how far the restores of a running instance are, until the function that it
// returns is called.
func followRestores(ctx context.Context, status func() txn.Status, log *slog.Logger) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if tasks, all := restoring(status().Tasks); tasks > 0 {
					log.Info("restoring from changelogs", "tasks", tasks, "records", all.records, "bytes", all.bytes,
						"offsets_left", all.left, "offsets_per_second", int64(all.rate), "remaining", all.remaining.Round(time.Second))
				}
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// restoring sums the restores of tasks that have begun to read up. They run beside each other: the
// rest takes as long as at the rate of all.
func restoring(tasks []txn.TaskStatus) (n int, all reading) {
	for _, t := range tasks {
		if t.State != txn.TaskRestoring || t.Remaining == 0 {
			continue
		}
		n++
		all.records += t.Restored
		all.bytes += t.RestoredBytes
		all.left += t.Remaining
		all.rate += t.RestoreRate
	}
	if all.rate > 0 {
		all.remaining = time.Duration(float64(all.left) / all.rate * float64(time.Second))
	}
	return n, all
}
