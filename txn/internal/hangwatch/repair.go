package hangwatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/txn/internal/backoff"
	"github.com/onceward/onceward/txn/internal/hanging"
)

// repairDue reports whether logs are to be read for evidence now: what hangs is not what they were
// read for last, or that was long ago.
func (w *Watch) repairDue() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	var text strings.Builder
	for _, f := range w.found {
		fmt.Fprintf(&text, "%d/%d %v\n", f.ProducerID, f.Epoch, f.Partitions())
	}
	now := time.Now()
	switch {
	case text.Len() == 0:
		w.read = ""
		return false
	case text.String() != w.read:
		w.pause = backoff.Backoff{Next: hangingWatch, Max: readPauseMax}
	case now.Before(w.again):
		return false
	}
	w.read, w.again = text.String(), now.Add(w.pause.Next)
	w.pause.Next = min(2*w.pause.Next, w.pause.Max)
	return true
}

// repair reads the logs for evidence of what hangs, and repairs what it decides. It writes nothing
// where anything of the application was not asked or not read: that may hold the transaction open
// too, or have evidence against it.
func (w *Watch) repair(ctx context.Context) error {
	_, found, unread, err := w.ask(ctx, hanging.Find)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.found = slices.Clone(w.found) // Found has given the last one away
	for i := range w.found {
		if j := slices.IndexFunc(found, same(w.found[i])); j >= 0 {
			w.found[i] = found[j]
		}
	}
	w.mu.Unlock()
	for _, f := range found {
		if f.Decision.Verdict == hanging.Unknown {
			continue
		}
		if unread != nil || len(f.Evidence.Unread) > 0 {
			w.cfg.Logger.Warn("a transaction that hangs is not repaired, because not everything may be read that it can be open in",
				append(attributes(f), "error", errors.Join(append([]error{unread}, textErrors(f.Evidence.Unread)...)...))...)
			continue
		}
		if w.uses(f) {
			continue // the next look ends the session
		}
		outcomes, err := hanging.Repair(ctx, w.cfg.Cluster, f, f.Decision.Verdict, nil)
		for _, o := range outcomes {
			if o.Written {
				w.cfg.Metrics.TransactionRepaired()
			}
		}
		if err != nil {
			w.cfg.Logger.Warn("a transaction that hangs could not be repaired", append(attributes(f), "error", err)...)
			continue
		}
		w.cfg.Logger.Warn("a transaction that hung was repaired", attributes(f)...)
	}
	return nil
}

func textErrors(texts []string) []error {
	var out []error
	for _, text := range texts {
		out = append(out, errors.New(text))
	}
	return out
}

// oneLine is the text of an error, "" for none.
func oneLine(err error) string {
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}

// Repair repairs what hangs, if it may, until ctx ends.
func (w *Watch) Repair(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.repairs:
		}
		if !w.cfg.Repairs || !w.repairDue() {
			continue
		}
		reading, cancel := context.WithTimeout(ctx, repairMax)
		err := w.repair(reading)
		cancel()
		if err != nil && ctx.Err() == nil {
			w.cfg.Logger.Warn("the evidence of transactions that hang could not be read", "error", err)
		}
		signal(w.due)
	}
}
