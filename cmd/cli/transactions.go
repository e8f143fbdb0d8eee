package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/onceward/onceward/txn/admin"
)

// transactionsCommand groups what is about transactions that stay open.
type transactionsCommand struct {
	List   transactionsListCommand   `cmd:"" help:"List the transactions that partitions of an application hold open, and which of them hang."`
	Show   transactionsShowCommand   `cmd:"" help:"Show what is known of an open transaction, and the evidence of how it ended."`
	Repair transactionsRepairCommand `cmd:"" help:"Write the missing markers of transactions that hang."`
}

// applicationFlags name an application and its cluster.
type applicationFlags struct {
	named
	clusterFlags
	outputFlag
}

// open connects and returns the application, with what ends the connection.
func (f *applicationFlags) open(ctx context.Context, p *process) (*admin.Application, func(), error) {
	if len(f.Brokers) == 0 {
		return nil, nil, usage("no broker is given; name at least one with --brokers")
	}
	t, err := f.topology(p)
	if err != nil {
		return nil, nil, err
	}
	client, err := f.connect(ctx, p.warnings())
	if err != nil {
		return nil, nil, err
	}
	return client.Application(t), client.Close, nil
}

// transactionsListCommand lists open transactions.
type transactionsListCommand struct {
	OlderThan time.Duration `default:"1m" placeholder:"DURATION" help:"Leave out what was written to since and does not hang; 0 shows everything that is open; default ${default}."`
	applicationFlags
}

// Help is for --help.
func (c *transactionsListCommand) Help() string {
	return "Inputs, outputs, dead letters, internal topics and the partition with the committed offsets are looked at. A transaction is " +
		"ongoing if its coordinator knows it, and will end. If its coordinator does not, it hangs, and its verdict says how it ended: commit, " +
		"abort or unknown. If no coordinator names its producer, it hangs or has a transactional id that may not be described. AGE is the time since the producer's last record, by the timestamp of the record, which is that of the event where " +
		"the topic has no log append time. Where something hangs, logs are read for evidence, which can take long. Nothing is changed."
}

func (c *transactionsListCommand) Run(p *process) error {
	if c.OlderThan < 0 {
		return usage("--older-than: %s is no age; give 0s or more", c.OlderThan)
	}
	a, end, err := c.open(p.ctx, p)
	if err != nil {
		return err
	}
	defer end()
	open, err := a.Transactions(p.ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	open.Transactions = slices.DeleteFunc(open.Transactions, func(t admin.Transaction) bool {
		age := now.Sub(t.LastRecord()) // below 0 if the timestamps are ahead: it says nothing then
		return !t.Hangs() && age >= 0 && age < c.OlderThan
	})
	if c.Output == "json" {
		return writeJSON(p.out, open)
	}
	return writeOpenTransactions(p.out, open, now)
}

func writeOpenTransactions(out io.Writer, open admin.OpenTransactions, now time.Time) error {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TRANSACTION\tTRANSACTIONAL ID\tCOORDINATOR\tPARTITION\tFIRST OFFSET\tAGE\tVERDICT")
	hanging, unnamed := 0, 0
	for _, t := range open.Transactions {
		switch {
		case t.Hangs():
			hanging++
		case !t.Ongoing:
			unnamed++
		}
		for _, p := range t.Partitions {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s[%d]\t%d\t%s\t%s\n", t.ID, orNone(oneLine(t.TransactionalID)), orNone(t.State), p.Topic, p.Partition,
				p.FirstOffset, now.Sub(p.LastRecord).Round(time.Second), verdictText(t))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(&text, "# %s: %d open, %d of them hang\n", open.Application, len(open.Transactions), hanging)
	if unnamed > 0 {
		fmt.Fprintf(&text, "# %d may be ongoing: no coordinator names their producers, whose transactional ids this principal may not describe\n", unnamed)
	}
	writeUnasked(&text, open.Unasked)
	_, err := io.WriteString(out, text.String())
	return err
}

func verdictText(t admin.Transaction) string {
	if t.Ongoing {
		return "ongoing"
	}
	return t.Verdict
}

// writeUnasked says what the result does not contain.
func writeUnasked(text io.Writer, unasked string) {
	if unasked != "" {
		fmt.Fprintf(text, "# not looked at: %s\n", oneLine(unasked))
	}
}

// transactionsShowCommand shows one transaction.
type transactionsShowCommand struct {
	Transaction string `arg:"" placeholder:"ID" help:"The transaction, as list shows it: producer id and epoch, such as 1002/5."`
	applicationFlags
}

// Help is for --help.
func (c *transactionsShowCommand) Help() string {
	return "It ends with 1 if nothing holds the transaction open."
}

func (c *transactionsShowCommand) Run(p *process) error {
	producerID, epoch, err := admin.ParseTransactionID(c.Transaction)
	if err != nil {
		return &usageError{err}
	}
	a, end, err := c.open(p.ctx, p)
	if err != nil {
		return err
	}
	defer end()
	open, err := a.Transactions(p.ctx, fmt.Sprintf("%d/%d", producerID, epoch))
	if err != nil {
		return err
	}
	i := slices.IndexFunc(open.Transactions, func(t admin.Transaction) bool {
		return t.ProducerID == producerID && t.ProducerEpoch == epoch
	})
	if i < 0 {
		return fmt.Errorf("no partition of %s holds transaction %s open", open.Application, c.Transaction)
	}
	if c.Output == "json" {
		return writeJSON(p.out, open.Transactions[i])
	}
	var text strings.Builder
	if err := writeTransaction(&text, open.Transactions[i], time.Now()); err != nil {
		return err
	}
	writeUnasked(&text, open.Unasked)
	_, err = io.WriteString(p.out, text.String())
	return err
}

func writeTransaction(text io.Writer, t admin.Transaction, now time.Time) error {
	w := tabwriter.NewWriter(text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "transaction\t%s\n", t.ID)
	fmt.Fprintf(w, "transactional id\t%s\n", orNone(oneLine(t.TransactionalID)))
	fmt.Fprintf(w, "coordinator\t%s\n", orNone(t.State))
	whose := "not known to be the application's"
	if t.Own {
		whose = "the application's own"
	}
	fmt.Fprintf(w, "producer\t%s\n", whose)
	fmt.Fprintf(w, "verdict\t%s\n", verdictText(t))
	for _, reason := range t.Reasons {
		fmt.Fprintf(w, "  because\t%s\n", oneLine(reason))
	}
	for _, p := range t.Partitions {
		fmt.Fprintf(w, "open in\t%s[%d] from offset %d on, last record %s (%s ago), coordinator epoch %d\n", p.Topic, p.Partition, p.FirstOffset,
			momentText(p.LastRecord.UnixMilli()), now.Sub(p.LastRecord).Round(time.Second), p.CoordinatorEpoch)
	}
	return w.Flush()
}

// transactionsRepairCommand writes markers.
type transactionsRepairCommand struct {
	Transactions []string `arg:"" optional:"" name:"id" help:"Transactions as list shows them; default is every one of the application that hangs and whose outcome the evidence tells."`
	Partition    []string `placeholder:"TOPIC/PARTITION" help:"Write to this partition only, such as out/3; default is all that hold the transaction open. May be given several times."`
	Outcome      string   `enum:",commit,abort" default:"" placeholder:"OUTCOME" help:"How the named transaction ended, commit or abort, where the evidence does not tell."`
	NotOngoing   bool     `help:"Say that no process has the named transaction under way. It is needed with --outcome if no coordinator names its producer, or names an older epoch."`
	DryRun       bool     `help:"Check everything and say what would be done, and do nothing."`
	applicationFlags
}

// Help is for --help.
func (c *transactionsRepairCommand) Help() string {
	return "A transaction that hangs gets the markers that were lost, as the evidence says, in outputs and changelogs first and in the " +
		"committed offsets last. Look at it with --dry-run first. Where the evidence does not tell, --outcome does: what is " +
		"committed appears, what is aborted is gone, and neither can be taken back. The opposite of the evidence is refused, and so is " +
		"what is ongoing or whose producer is at work. Instances may run; what one of them says of a transaction in onceward status is " +
		"evidence that no other process has. It takes ClusterAction on the cluster (onceward permissions --repair). " +
		"It ends with 1 if a transaction that hangs was left as it is, or would be with --dry-run."
}

func (c *transactionsRepairCommand) Run(p *process) error {
	o := admin.RepairOptions{Transactions: c.Transactions, Outcome: c.Outcome, NotOngoing: c.NotOngoing, DryRun: c.DryRun}
	for _, id := range c.Transactions {
		if _, _, err := admin.ParseTransactionID(id); err != nil {
			return &usageError{err}
		}
	}
	if c.Outcome != "" && len(c.Transactions) != 1 {
		return usage("--outcome: name the one transaction that it is about, as list shows it")
	}
	for _, text := range c.Partition {
		topic, number, ok := strings.Cut(text, "/")
		n, err := strconv.ParseInt(number, 10, 32)
		if !ok || err != nil || n < 0 || topic == "" {
			return usage("--partition: %q is no partition; give topic and number, such as out/3", text)
		}
		o.Partitions = append(o.Partitions, admin.Partition{Topic: topic, Partition: int32(n)})
	}
	a, end, err := c.open(p.ctx, p)
	if err != nil {
		return err
	}
	defer end()
	report, err := a.RepairTransactions(p.ctx, o)
	if err != nil && len(report.Transactions) == 0 {
		return err
	}
	var written error
	if c.Output == "json" {
		written = writeJSON(p.out, report)
	} else {
		written = writeRepair(p.out, report)
	}
	if err == nil {
		err = written
	}
	left := 0
	for _, t := range report.Transactions {
		if t.Left != "" {
			left++
		}
	}
	switch {
	case err != nil || left == 0:
	case c.DryRun:
		err = fmt.Errorf("%d transactions that hang would be left as they are; the output says why", left)
	default:
		err = fmt.Errorf("%d transactions that hang were left as they are; the output says why", left)
	}
	return err
}

func writeRepair(out io.Writer, r admin.RepairReport) error {
	var text strings.Builder
	if r.DryRun {
		text.WriteString(dryRunNotice + "\n")
	}
	for _, t := range r.Transactions {
		if t.Left != "" {
			fmt.Fprintf(&text, "transaction %s: left as it is: %s\n", t.ID, oneLine(t.Left))
			continue
		}
		fmt.Fprintf(&text, "transaction %s: %s\n", t.ID, t.Outcome)
		if t.Verdict == t.Outcome {
			for _, reason := range t.Reasons {
				fmt.Fprintf(&text, "  because %s\n", oneLine(reason))
			}
		} else {
			text.WriteString("  because --outcome says so\n")
		}
		for _, p := range t.Written {
			fmt.Fprintf(&text, "  marker in %s\n", p)
		}
		for _, p := range t.Ended {
			fmt.Fprintf(&text, "  had ended in %s\n", p)
		}
	}
	if len(r.Transactions) == 0 {
		text.WriteString("nothing hangs\n")
	}
	writeUnasked(&text, r.Unasked)
	_, err := io.WriteString(out, text.String())
	return err
}
