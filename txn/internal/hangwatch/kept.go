package hangwatch

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/broker"
)

// keep stores the answers that decide, if they are not what is stored. That a transaction is ongoing
// is not stored. It is evidence only for the process that initialises the id right after it: a later
// process cannot know what came in between.
func (w *Watch) keep() {
	if w.cfg.Directory == nil {
		return
	}
	w.keeping.Lock()
	defer w.keeping.Unlock()
	w.mu.Lock()
	answers := slices.DeleteFunc(slices.Clone(w.before), func(a broker.Named) bool { return !decides(a) })
	w.mu.Unlock()
	if slices.Equal(answers, w.kept) {
		return
	}
	ends := state.TransactionEnds{Cluster: w.cfg.ClusterID, RoundsTopic: w.cfg.RoundsTopic}
	for _, a := range answers {
		ends.Ends = append(ends.Ends, state.TransactionEnd{
			TransactionalID: a.TransactionalID, ProducerID: a.ProducerID, Epoch: a.Epoch, State: a.State, Started: a.Started,
		})
	}
	err := w.cfg.Directory.SetTransactionEnds(ends)
	if err == nil {
		w.kept = answers
	} else if !w.notKept {
		w.cfg.Logger.Warn("what coordinators say of the last transactions cannot be stored",
			"error", err, "consequence", "if this process ends before it has repaired a transaction that hangs, an operator has to know how that ended",
			"remedy", "make the state directory writable; the next answers are stored again")
	}
	w.notKept = err != nil
}

// load takes the answers that an earlier process has stored. A file that is damaged, or that was
// stored with another cluster, is set aside: what it said is not known then.
func (w *Watch) load() {
	if w.cfg.Directory == nil {
		return
	}
	ends, err := w.cfg.Directory.TransactionEnds()
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
		if !strings.HasPrefix(e.TransactionalID, prefix) || ending(broker.Transaction{State: e.State}) == "" {
			return fmt.Errorf("the answer %q about %q is none about an end of a transaction of %s", e.State, e.TransactionalID, w.cfg.Topology.Application())
		}
	}
	return nil
}
