package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/onceward/onceward/txn/admin"
)

// topicsCommand groups what can be done to the topics of an application.
type topicsCommand struct {
	Create topicsCreateCommand `cmd:"" help:"Create the topics of a pipeline that are missing; alters no existing topic."`
}

// topicsCreateCommand creates missing topics.
type topicsCreateCommand struct {
	Topics     []string `arg:"" optional:"" name:"topic" help:"Inputs, outputs and other topics that the pipeline names; default is all that are missing."`
	Partitions int32    `placeholder:"N" help:"Number of partitions where it does not follow from existing topics."`
	Replicas   int16    `placeholder:"N" help:"Replicas of the created topics; default is the cluster's."`
	MinInSync  int      `placeholder:"N" help:"min.insync.replicas of the created topics; default is the cluster's."`
	Internal   bool     `help:"Create internal topics too, as run does; for instances without the permission Create."`
	named
	clusterFlags
	DryRun bool `help:"Print what would be created, and create nothing."`
	outputFlag
}

// Help is for --help.
func (c *topicsCreateCommand) Help() string {
	return "An input gets as many partitions as the changelogs or the other inputs of its tasks; without those it takes --partitions." +
		" Other topics get --partitions, or as many as the largest input. Settings are the cluster's defaults, with two exceptions without which" +
		" the pipeline would not start. An input of an inbox keeps records for no longer than the inbox keeps ids. A topic from" +
		" which a table is restored is compacted. The topics of a pattern are left to their producers. Instances may run. Needs the permissions Create and Describe on the topics."
}

func (c *topicsCreateCommand) Run(p *process) error {
	switch {
	case len(c.Brokers) == 0:
		return usage("no broker is given; name at least one with --brokers")
	case c.Partitions < 0, c.Replicas < 0, c.MinInSync < 0:
		return usage("--partitions, --replicas and --min-in-sync must be at least 1")
	}
	t, err := c.topology(p)
	if err != nil {
		return err
	}
	ctx, release := untilSignal(p.ctx, slog.New(slog.DiscardHandler))
	defer release()
	client, err := c.connect(ctx, p.warnings())
	if err != nil {
		return err
	}
	defer client.Close()
	report, err := client.Application(t).CreateTopics(ctx, admin.CreateTopicsOptions{
		Topics: c.Topics, Partitions: c.Partitions, Replicas: c.Replicas, MinInSync: c.MinInSync, Internal: c.Internal, DryRun: c.DryRun,
	})
	if err != nil && len(report.Topics) == 0 {
		return err
	}
	if c.Output == "json" {
		return errors.Join(writeJSON(p.out, report), err)
	}
	return errors.Join(writeCreatedTopics(p.out, report), err)
}

// writeCreatedTopics writes for people what was created.
func writeCreatedTopics(out io.Writer, r admin.CreatedTopics) error {
	var text strings.Builder
	if r.DryRun {
		text.WriteString(dryRunNotice + "\n")
	}
	if len(r.Topics) == 0 {
		text.WriteString("nothing to create: the topics exist\n")
	}
	for _, topic := range r.Topics {
		fmt.Fprintf(&text, "created %s %s: %d partitions, %s", topic.Use, topic.Topic, topic.Partitions, topic.Because)
		if topic.Replicas > 0 {
			fmt.Fprintf(&text, "; %d replicas", topic.Replicas)
		}
		for _, name := range slices.Sorted(maps.Keys(topic.Settings)) {
			fmt.Fprintf(&text, "; %s=%s", name, topic.Settings[name])
		}
		text.WriteString("\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}
