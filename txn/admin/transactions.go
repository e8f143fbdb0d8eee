package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/hanging"
)

// Transaction is a transaction that partitions of an application hold open, its own or one of
// another producer. Its JSON form is for programs, and its fields stay.
type Transaction struct {
	// ID names it: producer id and epoch, with a slash between them.
	ID            string `json:"id"`
	ProducerID    int64  `json:"producer_id"`
	ProducerEpoch int16  `json:"producer_epoch"`
	// TransactionalID and State are what a coordinator says of the producer id now. They are empty
	// where no coordinator knows it, or where the principal may not describe the transactional id.
	TransactionalID string `json:"transactional_id"`
	State           string `json:"state"`
	// Own says that the producer is known to be one of the application's.
	Own bool `json:"own"`
	// Ongoing says that the coordinator knows the transaction, and will end it.
	Ongoing bool `json:"ongoing"`
	// Known says that the coordinators tell whether the transaction is ongoing. If they do and it
	// is not, it hangs. If they do not, no coordinator names the producer: it can be ongoing under
	// a transactional id that the principal may not describe. It hangs as well if the verdict is
	// commit or abort.
	Known bool `json:"known"`
	// Verdict is how the transaction ended, by the evidence: commit, abort or unknown. It is empty
	// for one that is ongoing, and for one of which evidence was not looked for.
	Verdict string `json:"verdict"`
	// Reasons are the evidence, a sentence each.
	Reasons []string `json:"reasons"`
	// Partitions hold it open. Those of committed offsets are the last.
	Partitions []OpenPartition `json:"partitions"`

	found hanging.Finding
}

// OpenPartition is a partition that holds a transaction open.
type OpenPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// FirstOffset is that of its first record. Readers of committed records get no further.
	FirstOffset int64 `json:"first_offset"`
	// LastRecord is the timestamp of the producer's last record in the partition, which is that of
	// the event where the topic has no log append time.
	LastRecord       time.Time `json:"last_record"`
	CoordinatorEpoch int32     `json:"coordinator_epoch"`
}

// Hangs reports whether the transaction is known to be one that nothing ends.
func (t Transaction) Hangs() bool {
	return !t.Ongoing && (t.Known || t.Verdict == OutcomeCommit || t.Verdict == OutcomeAbort)
}

// LastRecord is the newest timestamp of its partitions.
func (t Transaction) LastRecord() time.Time {
	return slices.MaxFunc(t.Partitions, func(a, b OpenPartition) int { return a.LastRecord.Compare(b.LastRecord) }).LastRecord
}

// OpenTransactions are the transactions that an application's partitions hold open.
type OpenTransactions struct {
	Application string `json:"application"`
	// Transactions are sorted by producer id and epoch.
	Transactions []Transaction `json:"transactions"`
	// Unasked says what could not be asked for want of a permission, or because the cluster does
	// not name a topic; empty if everything was.
	Unasked string `json:"unasked,omitempty"`
}

// Transactions returns the transactions that inputs, outputs, dead letters, internal topics and
// committed offsets of the application hold open. If one may hang, the logs are read for evidence
// from a while before its records on, which can take long; with ids (Transaction.ID) that is done
// for these only. It changes nothing, and instances may run.
//
// It needs the permission to read each topic, that of committed offsets (__consumer_offsets)
// included. Topics that may not be read are left out, and named in Unasked.
func (a *Application) Transactions(ctx context.Context, ids ...string) (OpenTransactions, error) {
	out := OpenTransactions{Application: a.topology.Application(), Transactions: []Transaction{}}
	c, err := a.cluster(ctx)
	if err != nil {
		return OpenTransactions{}, err
	}
	defer c.Close()
	found, unasked, err := a.find(ctx, c, ids)
	if err != nil {
		return OpenTransactions{}, fmt.Errorf("looking for open transactions: %w", err)
	}
	if unasked != nil {
		out.Unasked = strings.ReplaceAll(unasked.Error(), "\n", "; ")
	}
	for _, f := range found {
		out.Transactions = append(out.Transactions, transactionOf(f))
	}
	return out, nil
}

func (a *Application) cluster(ctx context.Context) (*broker.Cluster, error) {
	return broker.Connect(ctx, a.client.cfg, a.topology.Application())
}

// find returns what is open, and what was not asked: topics that may not be read, or that the
// cluster does not name. Evidence is looked for only of those ids, of all if there are none.
func (a *Application) find(ctx context.Context, c *broker.Cluster, ids []string) (found []hanging.Finding, unasked, err error) {
	search, hidden := hanging.SearchOf(ctx, c, a.topology)
	if hidden != nil && search.Partitions == nil {
		return nil, nil, hidden
	}
	if len(ids) > 0 {
		search.Wanted = func(producerID int64, epoch int16) bool {
			return slices.Contains(ids, transactionID(producerID, epoch))
		}
	}
	found, err = hanging.Find(ctx, c, search)
	if err != nil && !hanging.OnlyDenied(err) {
		return nil, nil, err
	}
	return found, errors.Join(hidden, err, search.Complete()), nil
}

func transactionID(producerID int64, epoch int16) string {
	return fmt.Sprintf("%d/%d", producerID, epoch)
}

func transactionOf(f hanging.Finding) Transaction {
	t := Transaction{
		ID: transactionID(f.ProducerID, f.Epoch), ProducerID: f.ProducerID, ProducerEpoch: f.Epoch, Own: f.Own, Ongoing: f.Ongoing(),
		Known: f.Known(), Reasons: []string{}, found: f,
	}
	if f.Named != nil {
		t.TransactionalID, t.State = f.Named.TransactionalID, f.Named.State
	}
	if len(f.Decision.Reasons) > 0 {
		t.Verdict, t.Reasons = f.Decision.Verdict.String(), f.Decision.Reasons
	}
	for _, open := range f.Open {
		t.Partitions = append(t.Partitions, OpenPartition{
			Topic: open.Topic, Partition: open.Partition, FirstOffset: open.FirstOffset, LastRecord: open.LastRecord,
			CoordinatorEpoch: open.CoordinatorEpoch,
		})
	}
	return t
}

// ParseTransactionID reads Transaction.ID.
func ParseTransactionID(text string) (producerID int64, epoch int16, err error) {
	id, e, ok := strings.Cut(text, "/")
	if ok {
		var n int64
		if producerID, err = strconv.ParseInt(id, 10, 64); err == nil {
			n, err = strconv.ParseInt(e, 10, 16)
		}
		epoch = int16(n)
	}
	if !ok || err != nil || producerID < 0 || epoch < 0 {
		return 0, 0, fmt.Errorf("%q is no transaction; give a producer id and an epoch, such as 1002/5", text)
	}
	return producerID, epoch, nil
}

// Partition names a partition of a topic.
type Partition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

func (p Partition) String() string { return fmt.Sprintf("%s[%d]", p.Topic, p.Partition) }

// The outcomes that an operator can name.
const (
	OutcomeCommit = "commit"
	OutcomeAbort  = "abort"
)

// RepairOptions say what to repair.
type RepairOptions struct {
	// Transactions are those to repair, by Transaction.ID; none are all of the application's own
	// that hang and whose outcome the evidence tells.
	Transactions []string
	// Partitions restrict the repair to some; none are all that hold a transaction open.
	Partitions []Partition
	// Outcome is what an operator knows to have become of the one transaction that is named, where
	// the evidence does not tell: OutcomeCommit or OutcomeAbort. The opposite of the evidence is
	// refused.
	Outcome string
	// NotOngoing is the operator's word that no process has the transaction under way. It is needed
	// beside Outcome if no coordinator names the producer, see Transaction.Known, or if its
	// coordinator knows an older epoch only.
	NotOngoing bool
	// DryRun finds out what would be done, with every check, and does nothing.
	DryRun bool
}

// RepairReport is what a repair has done, or with DryRun would do. Its JSON form is for programs,
// and its fields stay.
type RepairReport struct {
	Application  string                `json:"application"`
	DryRun       bool                  `json:"dry_run"`
	Transactions []RepairedTransaction `json:"transactions"`
	Unasked      string                `json:"unasked,omitempty"`
}

// RepairedTransaction is one transaction of a repair.
type RepairedTransaction struct {
	Transaction
	// Outcome is commit or abort; empty for one that is left as it is, and then Left says why.
	Outcome string `json:"outcome"`
	Left    string `json:"left,omitempty"`
	// Written are the partitions that got a marker, in that order. Ended are those in which the
	// transaction had ended meanwhile.
	Written []Partition `json:"written"`
	Ended   []Partition `json:"ended,omitempty"`
}

// RepairTransactions writes the missing markers of hanging transactions, outputs and changelogs
// first and committed offsets last. Instances may run. Right before each marker it looks again:
// nothing is written where the transaction is not the same one any more, or its producer has a
// transaction under way. It takes ClusterAction on the cluster, beside what Transactions takes.
//
// An outcome that the operator names is written for the one transaction that is named. If no
// coordinator names its producer, it can be an ongoing one of a transactional id that the principal
// may not describe. Its age does not tell, which is by the timestamps of records. So without
// evidence it is refused unless NotOngoing is set. Transactions of other applications have to be
// named.
//
// If a topic of the application may not be read, or the cluster does not name it, committed offsets
// are repaired only if Partitions name them: results that belong to them could be open there.
//
// A refusal changes nothing, but for an error in the middle of the repair: then the report says
// what was written.
func (a *Application) RepairTransactions(ctx context.Context, o RepairOptions) (RepairReport, error) {
	report := RepairReport{Application: a.topology.Application(), DryRun: o.DryRun, Transactions: []RepairedTransaction{}}
	c, err := a.cluster(ctx)
	if err != nil {
		return report, err
	}
	defer c.Close()
	found, unasked, err := a.find(ctx, c, o.Transactions)
	if err != nil {
		return report, fmt.Errorf("looking for open transactions: %w", err)
	}
	if unasked != nil {
		report.Unasked = strings.ReplaceAll(unasked.Error(), "\n", "; ")
	}
	chosen, err := o.choose(found)
	if err != nil {
		return report, fmt.Errorf("repair: %w", err)
	}
	for _, f := range chosen {
		done, err := o.repair(ctx, c, f, unasked)
		if err == nil || len(done.Written) > 0 {
			report.Transactions = append(report.Transactions, done)
		}
		if err != nil {
			return report, fmt.Errorf("repairing transaction %s: %w", done.ID, err)
		}
	}
	return report, nil
}

// choose returns the transactions that are meant.
func (o RepairOptions) choose(found []hanging.Finding) ([]hanging.Finding, error) {
	switch {
	case o.Outcome != "" && o.Outcome != OutcomeCommit && o.Outcome != OutcomeAbort:
		return nil, refuse("%q is no outcome; it is %s or %s", o.Outcome, OutcomeCommit, OutcomeAbort)
	case o.Outcome != "" && len(o.Transactions) != 1:
		return nil, refuse("an outcome is for one transaction, which has to be named")
	case len(o.Transactions) == 0:
		return slices.DeleteFunc(found, func(f hanging.Finding) bool {
			return !transactionOf(f).Hangs() || !slices.ContainsFunc(f.Open, o.wants)
		}), nil
	}
	var chosen []hanging.Finding
	for _, text := range o.Transactions {
		producerID, epoch, err := ParseTransactionID(text)
		if err != nil {
			return nil, refuse("%v", err)
		}
		i := slices.IndexFunc(found, func(f hanging.Finding) bool { return f.ProducerID == producerID && f.Epoch == epoch })
		if i < 0 {
			return nil, refuse("no partition of the application holds transaction %s open", text)
		}
		if !slices.ContainsFunc(found[i].Open, o.wants) {
			return nil, refuse("none of the partitions that are given holds transaction %s open", text)
		}
		chosen = append(chosen, found[i])
	}
	return chosen, nil
}

// wants reports whether a partition is one to repair.
func (o RepairOptions) wants(open broker.OpenTransaction) bool {
	return len(o.Partitions) == 0 || slices.Contains(o.Partitions, Partition{open.Topic, open.Partition})
}

// repair treats one transaction. One that was named is refused where one that was found is left.
func (o RepairOptions) repair(ctx context.Context, c *broker.Cluster, f hanging.Finding, unasked error) (out RepairedTransaction, err error) {
	out = RepairedTransaction{Transaction: transactionOf(f), Written: []Partition{}}
	verdict := f.Decision.Verdict
	named := len(o.Transactions) > 0
	leave := func(format string, args ...any) (RepairedTransaction, error) {
		out.Left = fmt.Sprintf(format, args...)
		if named {
			return out, refuse("%s", out.Left)
		}
		return out, nil
	}
	switch {
	case f.Ongoing():
		return leave("it is ongoing: the coordinator of %s says %s, and ends it", f.Named.TransactionalID, f.Named.State)
	case f.AtWork():
		return leave("its producer %s is at work with another transaction (%s): stop the instance that has it, or try again",
			f.Named.TransactionalID, f.Named.State)
	case verdict != hanging.Unknown && o.Outcome != "" && verdict.String() != o.Outcome:
		return leave("the evidence says %s: %s", verdict, strings.Join(f.Decision.Reasons, "; "))
	case verdict == hanging.Unknown && o.Outcome == "":
		return leave("the evidence does not tell how it ended: %s; name its end with --outcome if you know it", strings.Join(f.Decision.Reasons, "; "))
	case verdict == hanging.Unknown && !f.Known() && !o.NotOngoing:
		return leave("no coordinator names its producer: it can be ongoing under a transactional id that this principal may not describe. " +
			"Grant Describe on the transactional id, or stop every process that writes with it and say so with --not-ongoing")
	case verdict == hanging.Unknown && f.Behind() && !o.NotOngoing:
		return leave("its coordinator knows the older epoch %d of %s, and does not tell whether it is ongoing. Try again. If that stays so, stop "+
			"every process that writes with the id and say so with --not-ongoing", f.Named.Epoch, f.Named.TransactionalID)
	case !named && !f.Own:
		return leave("it is not known to be one of the application: name it to repair it")
	case len(o.Partitions) == 0 && f.Open[len(f.Open)-1].Topic == broker.OffsetsTopic && (unasked != nil || len(f.Evidence.Unread) > 0):
		return leave("it holds committed offsets open, and results that belong to them can be open in what was not looked at. " +
			"Grant Read (onceward permissions --repair), try again if a topic is missing, or name the partitions with --partition")
	}
	if verdict == hanging.Unknown {
		verdict = hanging.Commit
		if o.Outcome == OutcomeAbort {
			verdict = hanging.Abort
		}
	}
	out.Outcome = verdict.String()
	if o.DryRun {
		return o.plan(f, out)
	}
	done, err := hanging.Repair(ctx, c, f, verdict, o.wants)
	for _, d := range done {
		p := Partition{d.Topic, d.Partition}
		if d.Written {
			out.Written = append(out.Written, p)
		} else {
			out.Ended = append(out.Ended, p)
		}
	}
	if len(out.Written) == 0 {
		err = explainRepair(err)
	}
	return out, err
}

// plan says what would be written.
func (o RepairOptions) plan(f hanging.Finding, out RepairedTransaction) (RepairedTransaction, error) {
	left := ""
	for _, open := range f.Open {
		p := Partition{open.Topic, open.Partition}
		switch {
		case !o.wants(open):
			left = cmp.Or(left, p.String())
		case open.Topic == broker.OffsetsTopic && left != "":
			return out, refuse("offsets are repaired after all other partitions, and %s is not among those that are given", left)
		default:
			out.Written = append(out.Written, p)
		}
	}
	return out, nil
}

// explainRepair makes a refusal of what a repair refuses before it has written anything.
func explainRepair(err error) error {
	for _, refused := range []error{hanging.ErrAtWork, hanging.ErrChanged, hanging.ErrOrder, hanging.ErrContradicted, hanging.ErrUndecided} {
		if errors.Is(err, refused) {
			return &Refusal{Reason: err.Error()}
		}
	}
	return err
}
