package hangwatch

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/hanging"
)

// keep stores the answers that decide, if they are not what is stored. That a transaction is ongoing
// is not stored. It is evidence only for the process that initialises the id right after it: a later
// process cannot know what came in between.
//
// When ctx ends, keep returns while the disk is still at it, with a warning if that is by a deadline.
// The goroutine that writes ends with the write, for which Directory.Close waits; there is one at
// most.
func (w *Watch) keep(ctx context.Context) {
	if w.store == nil {
		return
	}
	written := make(chan struct{})
	select {
	case w.keeping <- struct{}{}:
		w.mu.Lock()
		answers := slices.DeleteFunc(slices.Clone(w.before), func(a broker.Named) bool { return !decides(a) })
		w.mu.Unlock()
		if slices.Equal(answers, w.kept) {
			<-w.keeping
			return
		}
		go func() {
			w.write(answers)
			<-w.keeping
			close(written)
		}()
	case <-ctx.Done(): // the last write is not over
	}
	select {
	case <-written:
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			w.cfg.Logger.Warn("what coordinators say of the last transactions is not on the disk in time", "consequence", notStored, "remedy", "none, if the disk answers again")
		}
	}
}

// notStored is what follows if an answer is not in the directory.
const notStored = "if this process ends before it has repaired a transaction that hangs, an operator has to know how that ended"

// write stores answers. The caller has the token of keeping.
func (w *Watch) write(answers []broker.Named) {
	ends := state.TransactionEnds{Cluster: w.cfg.ClusterID, RoundsTopic: w.cfg.RoundsTopic}
	for _, a := range answers {
		ends.Ends = append(ends.Ends, state.TransactionEnd{
			TransactionalID: a.TransactionalID, ProducerID: a.ProducerID, Epoch: a.Epoch, State: a.State, Started: a.Started,
		})
	}
	err := w.store(ends)
	switch {
	case errors.Is(err, state.ErrClosed): // the process ends
		return
	case err == nil:
		w.kept = answers
	case !w.notKept:
		w.cfg.Logger.Warn("what coordinators say of the last transactions cannot be stored",
			"error", err, "consequence", notStored, "remedy", "make the state directory writable; the next answers are stored again")
	}
	w.notKept = err != nil
}

// load takes the answers that an earlier process has stored. A file that is damaged, or that was
// stored with another cluster, is set aside: what it said is not known then. A file that cannot be
// read may be good: it stays as it is, and this process stores nothing.
func (w *Watch) load() {
	ends, err := w.cfg.Directory.TransactionEnds()
	if err != nil && !errors.Is(err, state.ErrCorrupt) && !errors.Is(err, state.ErrFormat) {
		w.cfg.Logger.Warn("what coordinators said of the last transactions before this start cannot be read, and this process stores no answers",
			"error", err, "consequence", notStored, "remedy", "make the file readable, and start again")
		return
	}
	w.store = w.cfg.Directory.SetTransactionEnds
	if err == nil {
		err = w.fits(ends)
	}
	if err != nil {
		where := "not renamed"
		if name, asideErr := w.cfg.Directory.SetTransactionEndsAside(); asideErr != nil {
			where += ": " + asideErr.Error()
		} else {
			where = filepath.Join(w.cfg.Directory.Path(), name)
		}
		w.cfg.Logger.Warn("what coordinators said of the last transactions before this start is not used", "reason", oneLine(err), "set_aside", where,
			"remedy", "only if onceward status shows a transaction that hangs with the verdict unknown: name how it ended with "+
				"onceward transactions repair --outcome; remove the file afterwards")
		return
	}
	for _, e := range ends.Ends {
		w.kept = append(w.kept, broker.Named{
			TransactionalID: e.TransactionalID,
			Transaction:     broker.Transaction{State: e.State, ProducerID: e.ProducerID, Epoch: e.Epoch, Started: e.Started},
		})
	}
	w.before = slices.Clone(w.kept)
}

// fits returns why what is stored is not about transactions of this application on this cluster, nil
// if it is. Another instance of the application may have stored it: an answer about a producer id
// and an epoch of a cluster is true wherever it is read.
func (w *Watch) fits(ends state.TransactionEnds) error {
	if len(ends.Ends) == 0 {
		return nil
	}
	if ends.Cluster != w.cfg.ClusterID {
		return fmt.Errorf("it is of the Kafka cluster %q, and the brokers are those of %q", ends.Cluster, w.cfg.ClusterID)
	}
	if ends.RoundsTopic != w.cfg.RoundsTopic {
		return fmt.Errorf("the rounds topic of the application had the id %x and has %x: the topic or the cluster was made again",
			ends.RoundsTopic, w.cfg.RoundsTopic)
	}
	prefix := broker.TransactionalPrefix(w.cfg.Topology.Application())
	for _, e := range ends.Ends {
		if !strings.HasPrefix(e.TransactionalID, prefix) || hanging.EndOf(broker.Transaction{State: e.State}) == hanging.Unknown {
			return fmt.Errorf("the answer %q about %q is none about an end of a transaction of %s", e.State, e.TransactionalID, w.cfg.Topology.Application())
		}
	}
	return nil
}
