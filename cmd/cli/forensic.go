package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/admin"
)

// forensicCommand runs a topology over what its inputs hold and changes nothing.
type forensicCommand struct {
	named
	clusterFlags
	From       map[string]string `placeholder:"TOPIC=OFFSET" help:"Where to read a topic from: an offset, start or end; default is the start."`
	Show       string            `placeholder:"TOPIC" help:"Show the records that would have been written to this topic."`
	Encoding   string            `enum:"auto,text,hex,base64" default:"auto" placeholder:"ENCODING" env:"ONCEWARD_ENCODING" help:"How records are shown: as text, or base64 where it is none; or text, hex or base64."`
	Compare    string            `placeholder:"DIR" help:"State directory of a stopped instance, to be compared with what the inputs make."`
	ScratchDir string            `placeholder:"DIR" env:"ONCEWARD_SCRATCH_DIR" help:"Directory for temporary state, removed again; default is that of the system."`
	outputFlag
}

// Help is for --help.
func (c *forensicCommand) Help() string {
	return "The inputs are read as far as they are committed now, with an empty state, and what the pipeline would " +
		"have done is counted. Nothing is written to the cluster: no output, no offset, no state. It may run beside " +
		"the application, and needs to read only. The JSON form has no records. With --compare the inputs are read " +
		"as far as that instance has, and it ends with 3 if its state is another one. Where that can be because the " +
		"state depends on more than the inputs hold, such as schedules by the clock or records that are compacted " +
		"away, the reason is said, and it ends with 1."
}

func (c *forensicCommand) Run(p *process) error {
	switch {
	case len(c.Brokers) == 0:
		return usage("no brokers are given; name them with --brokers")
	case c.Show != "" && c.Output == "json":
		return usage("--show is for text; leave out --output json")
	}
	from, err := offsetsOf("--from", c.From)
	if err != nil {
		return err
	}
	t, err := c.topology(p)
	if err != nil {
		return err
	}
	ctx, release := untilSignal(p.ctx, slog.New(slog.DiscardHandler))
	defer release()
	client, err := c.connect(ctx, nil)
	if err != nil {
		return err
	}
	defer client.Close()
	compared, err := c.compared(ctx)
	if err != nil {
		return err
	}
	show := rowEncoder{encoding: c.Encoding}
	report, err := client.Forensic(ctx, t, admin.ForensicOptions{
		From: from, Scratch: c.ScratchDir, State: compared,
		Output: func(out graph.Output) error {
			if out.Topic != c.Show {
				return nil
			}
			_, err := fmt.Fprintf(p.out, "%s\t%s\n", recordText(show, out.Key), recordText(show, out.Value))
			return err
		},
	})
	if compared != nil {
		err = errors.Join(err, compared.Close())
	}
	if err != nil {
		return err
	}
	if c.Output == "json" {
		err = writeJSON(p.out, report)
	} else {
		_, err = io.WriteString(p.out, forensicText(show, report))
	}
	if err != nil {
		return err
	}
	return forensicVerdict(report)
}

// compared opens the state that is compared, nil if there is none.
func (c *forensicCommand) compared(ctx context.Context) (*admin.State, error) {
	if c.Compare == "" {
		return nil, nil //nolint:nilnil // nothing is compared
	}
	return admin.OpenState(ctx, c.Compare)
}

// errNotMade says that state is not what its inputs make.
var errNotMade = errors.New("the state is not what its inputs make")

// forensicVerdict says what is wrong altogether.
func forensicVerdict(r admin.ForensicReport) error {
	differ, unknown := 0, 0
	for _, s := range r.Stores {
		switch {
		case s.Differences > 0 && s.NotComparable != "":
			unknown++
		case s.Differences > 0:
			differ++
		}
	}
	switch {
	case len(r.Stopped) > 0:
		return errors.New("a task would have stopped")
	case differ > 0:
		return fmt.Errorf("%d of %d stores: %w", differ, len(r.Stores), errNotMade)
	case unknown > 0:
		return fmt.Errorf("%d of %d stores cannot be compared with what the inputs make", unknown, len(r.Stores))
	}
	return nil
}

// recordText shows a key or a value whose codec is not known.
func recordText(e rowEncoder, b []byte) string {
	if b == nil {
		return "null"
	}
	return e.part(b, nil).String()
}

// forensicText writes a report for people.
func forensicText(show rowEncoder, r admin.ForensicReport) string {
	var text strings.Builder
	fmt.Fprintf(&text, "forensic run of %s, version %s: nothing was changed\n", r.Application, r.Version)
	for _, in := range r.Inputs {
		fmt.Fprintf(&text, "read %s[%d] from %d to %d\n", in.Topic, in.Partition, in.From, in.To)
	}
	for _, o := range r.Outcomes {
		fmt.Fprintf(&text, "%s %s: %d\n", o.Node, o.Outcome, o.N)
	}
	for _, topic := range slices.Sorted(maps.Keys(r.Outputs)) {
		fmt.Fprintf(&text, "would write %d records to %s\n", r.Outputs[topic], topic)
	}
	for _, s := range r.Stopped {
		fmt.Fprintf(&text, "task %s would stop at %s[%d]@%d: %s\n", s.Task, s.Topic, s.Partition, s.Offset, s.Reason)
	}
	for _, s := range r.Stores {
		if s.First == nil {
			fmt.Fprintf(&text, "store %s of task %s: all %d rows are what the inputs make\n", s.Store, s.Task, s.Rows)
			continue
		}
		fmt.Fprintf(&text, "store %s of task %s has %d rows, and %d keys differ from what the inputs make; "+
			"the first is %s, %s\n",
			s.Store, s.Task, s.Rows, s.Differences, recordText(show, s.First.Key), forensicKinds[s.First.Kind])
		if s.NotComparable != "" {
			fmt.Fprintf(&text, "  that does not show that the state is wrong: %s\n", s.NotComparable)
		}
	}
	return text.String()
}

// forensicKinds say how a key differs.
var forensicKinds = map[admin.Kind]string{
	admin.Missing: "which only the inputs lead to", admin.Extra: "which only the state has", admin.OtherValue: "with another value",
}
