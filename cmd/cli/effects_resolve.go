package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// effectsResolveCommand records the outcome of an effect.
type effectsResolveCommand struct {
	ID string `arg:"" placeholder:"ID" help:"The id of the effect, as list shows it."`
	effectsFlags
	Status       string `required:"" enum:"COMPLETED,FAILED_TERMINAL,FAILED_RETRYABLE" placeholder:"STATUS" help:"COMPLETED: it has happened. FAILED_TERMINAL: it has not and will not. FAILED_RETRYABLE: it has not, and the call is made again."`
	Attempts     int    `required:"" placeholder:"N" help:"Number of attempts after which that was found out, as list and show have it."`
	By           string `required:"" placeholder:"NAME" help:"Who says so."`
	Note         string `required:"" placeholder:"TEXT" help:"Why: where it was seen, say."`
	ResponseFile string `placeholder:"FILE" help:"The answer of the provider, if known; - is the standard input."`
	Resolutions  string `placeholder:"TOPIC" help:"Topic of the resolutions; needed if the ledger has several."`

	Timeout time.Duration `default:"1m" placeholder:"DURATION" env:"ONCEWARD_TIMEOUT" help:"How long to wait until it is taken; default ${default}."`
	DryRun  bool          `help:"Check everything and say what would be done, and do nothing."`
	selection
	clusterFlags
	outputFlag
}

// Help is for --help.
func (c *effectsResolveCommand) Help() string {
	return "Writes the resolution, with its author and reason, to the topic from which the ledger's application reads resolutions " +
		"(effect.Resolve), and waits until the instance has taken it. It refuses, and writes nothing, if the effect is not " +
		"UNKNOWN or SUPPRESSED, has another step planned, or had another attempt meanwhile: a resolution of one attempt must " +
		"not apply to the next. A repeated resolution is taken once. The instance with the effect must run on this machine and " +
		"read the topic itself: resolutions that go through a repartition topic before effect.Resolve need another tool."
}

func (c *effectsResolveCommand) Run(p *process) (err error) {
	said, err := c.said(p)
	switch {
	case err != nil:
		return err
	case len(c.Brokers) == 0:
		return usage("no broker is given; name at least one with --brokers")
	case c.Timeout <= 0:
		return usage("--timeout: %s is no time to wait; give more than 0s", c.Timeout)
	}
	ctx, release := untilSignal(p.ctx, slog.New(slog.DiscardHandler))
	defer release()
	o, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	d := stateDirectory{StateDir: c.StateDir, selection: c.selection}
	if o.topology, err = d.known(p, o.Identity().Application); err != nil {
		return err
	}
	result, err := c.resolve(ctx, o, said)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return writeJSON(p.out, result)
	}
	return result.write(p.out)
}

// said returns the resolution that is given.
func (c *effectsResolveCommand) said(p *process) (v effect.Resolution, err error) {
	v = effect.Resolution{ID: c.ID, Attempts: c.Attempts, By: c.By, Note: c.Note}
	if err := v.Status.UnmarshalText([]byte(c.Status)); err != nil {
		return v, usage("--status: %w", err)
	}
	if c.ResponseFile != "" {
		if v.Response, err = readGiven(p, "--response-file", c.ResponseFile); err != nil {
			return v, err
		}
	}
	if err := v.Check(); err != nil {
		return v, &usageError{err}
	}
	return v, nil
}

// The outcomes of a resolve.
const (
	resolveTaken  = "taken"
	resolveBefore = "taken before"
	resolveDryRun = "dry run"
)

// resolved is the JSON form of what was done. Its fields are for programs and stay.
type resolved struct {
	// Outcome is taken, "taken before" or "dry run".
	Outcome  string `json:"outcome"`
	ID       string `json:"id"`
	Status   string `json:"status"`
	Attempts int    `json:"attempts"`
	By       string `json:"by"`
	Note     string `json:"note"`
	// Topic and Partition are where it is written; Offset is null where it was not.
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    *int64 `json:"offset"`
	// Effect is what is known of the effect then.
	Effect shownEffect `json:"effect"`
}

// errStopped says that no instance would answer.
var errStopped = errors.New("no instance runs on that state directory, so the result would not be known; run the command where the task of the " +
	"effect runs")

// resolve looks at the effect, writes the resolution, and waits until it is taken.
func (c *effectsResolveCommand) resolve(ctx context.Context, o openEffects, said effect.Resolution) (out resolved, err error) {
	e, err := c.effect(ctx, o)
	if err != nil {
		return out, err
	}
	to, err := c.to(o)
	if err != nil {
		return out, err
	}
	out = resolved{
		ID: said.ID, Status: said.Status.String(), Attempts: said.Attempts, By: said.By, Note: said.Note,
		Topic: to.Topic, Partition: e.at.Task.Partition, Effect: e.shown(time.Now()),
	}
	before, err := e.Accepts(&said)
	switch {
	case err == nil && !before && e.claim != nil: // a lookup: what has a call before it is not open
		err = errors.New("the effect is being looked up; what is not known after that can be resolved")
	case err == nil && before:
		out.Outcome = resolveBefore
		return out, nil
	}
	if err != nil {
		return out, fmt.Errorf("nothing was written; the effect is %s after attempt %d: %w", e.Status, e.Attempts, err)
	}
	value, err := o.encode(to, said, e.Key)
	if err != nil {
		return out, err
	}
	if !o.Running() && !c.DryRun {
		return out, errStopped
	}
	client, err := c.connect(ctx, nil)
	if err != nil {
		return out, err
	}
	defer client.Close()
	if c.DryRun {
		out.Outcome = resolveDryRun
		return out, client.CheckPartition(ctx, to.Topic, out.Partition)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	offset, err := client.Write(ctx, to.Topic, out.Partition, e.Key, value)
	if err != nil {
		return out, err
	}
	out.Offset = &offset
	err = c.await(ctx, o, said, &out)
	return out, err
}

// effect returns the one effect that is meant.
func (c *effectsResolveCommand) effect(ctx context.Context, o openEffects) (effectAt, error) {
	found, err := o.find(ctx, c.ID, false)
	if err != nil {
		return effectAt{}, err
	}
	if len(found) > 1 {
		var partitions []int32
		for _, e := range found {
			partitions = append(partitions, e.at.Task.Partition)
		}
		return effectAt{}, usage("there is an effect with that id in each of the partitions %s; choose one with --partition", numbers(partitions))
	}
	return found[0], nil
}

// to returns the source that resolutions of the ledger come from.
func (c *effectsResolveCommand) to(o openEffects) (graph.SourceDescription, error) {
	last, err := lastDescription(c.StateDir)
	if err != nil {
		return graph.SourceDescription{}, err
	}
	if last == nil {
		return graph.SourceDescription{}, usage("nothing in %s says where the resolutions of %s come from; it has the state of an older build",
			c.StateDir, o.name)
	}
	sources := map[string]graph.SourceDescription{}
	var topics []string
	for _, source := range effect.ResolvedFrom(*last, o.name) {
		if !source.Repartition {
			sources[source.Topic], topics = source, append(topics, source.Topic)
		}
	}
	if len(topics) == 0 {
		return graph.SourceDescription{}, usage("the application reads no external topic from which it would take resolutions of %s (effect.Resolve); resolutions that "+
			"go through a repartition topic before it need another tool", o.name)
	}
	topic, err := chosen("topic with resolutions of "+o.name, "--resolutions", c.Resolutions, topics)
	return sources[topic], err
}

// encode returns a resolution as its topic has it: as the topology's codec writes it, and without
// one as JSON, if that is what is read.
func (o openEffects) encode(to graph.SourceDescription, said effect.Resolution, key []byte) ([]byte, error) {
	codec := schemas.JSON[effect.Resolution]()
	value, err := codec.Append(nil, said)
	if err != nil {
		return nil, err
	}
	if o.topology != nil {
		rows, reads := o.topology.Records(to.Topic)
		if !reads {
			return nil, usage("topology %s does not read %s, as the instance does", o.topology.Name(), to.Topic)
		}
		if _, err := rows.Key(key); err != nil {
			return nil, fmt.Errorf("nothing was written: the application could not read the key of the request in %s: %w", to.Topic, err)
		}
		return rows.ParseValue(string(value))
	}
	if to.ValueFormat != codec.Name() {
		return nil, usage("the records of %s are %s and not JSON; use the program that has the topology, or name it with --topology",
			to.Topic, to.ValueFormat)
	}
	return value, nil
}

// await waits until the instance has processed the resolution, and reports whether the row of the
// effect has it. The topology needs no outlet for that answer.
func (c *effectsResolveCommand) await(ctx context.Context, o openEffects, said effect.Resolution, out *resolved) error {
	place := fmt.Sprintf("%s[%d] at offset %d", out.Topic, out.Partition, *out.Offset)
	row, err := o.GetBehind(ctx, o.name, out.Partition, []byte(c.ID), out.Topic, *out.Offset)
	if err != nil {
		return fmt.Errorf("the resolution was written to %s, and its result is unknown: %w; a repeated resolution is taken once",
			place, err)
	}
	if !row.Found {
		return fmt.Errorf("the resolution in %s was not taken: the effect is gone", place)
	}
	e, err := o.read(row.At, state.Entry{Key: []byte(c.ID), Value: row.Value}, nil)
	if err != nil {
		return err
	}
	before, why := e.Accepts(&said)
	switch {
	case before:
		out.Outcome, out.Effect = resolveTaken, e.shown(time.Now())
		return nil
	case why == nil:
		return fmt.Errorf("the resolution in %s was not taken; it is among the dead letters, unless a policy of the application says otherwise", place)
	}
	return fmt.Errorf("the resolution in %s was not taken; it is among the dead letters, unless a policy of the application says otherwise: %w",
		place, why)
}

// write is the form for people.
func (r resolved) write(out io.Writer) error {
	var text strings.Builder
	if r.Outcome == resolveDryRun {
		text.WriteString(dryRunNotice + "\n")
	}
	fmt.Fprintf(&text, "effect %s: %s after attempt %d, by %s: %s\n", oneLine(r.ID), r.Status, r.Attempts, oneLine(r.By), oneLine(r.Note))
	switch {
	case r.Outcome == resolveBefore:
		text.WriteString("  that was taken before; nothing was written\n")
	case r.Offset == nil:
		fmt.Fprintf(&text, "  to %s[%d]\n", r.Topic, r.Partition)
	default:
		fmt.Fprintf(&text, "  taken from %s[%d] at offset %d\n", r.Topic, r.Partition, *r.Offset)
	}
	fmt.Fprintf(&text, "  it is %s now, after attempt %d\n", r.Effect.Status, r.Effect.Attempts)
	_, err := io.WriteString(out, text.String())
	return err
}
