package main

import (
	"fmt"
	"strconv"

	"github.com/onceward/onceward/processors/postgres/pgsink"
)

type sinkCommands struct {
	Offsets   sinkOffsetsCommand   `cmd:"" help:"List where the sink reads its partitions next, and who owns them."`
	List      sinkListCommand      `cmd:"" help:"List records in quarantine."`
	Discard   sinkDiscardCommand   `cmd:"" help:"Remove a record from quarantine without an effect."`
	SetOffset sinkSetOffsetCommand `cmd:"" help:"Have the sink read a partition on at an offset."`
	Reset     sinkResetCommand     `cmd:"" help:"Remove the offsets of a topic, so that the sink begins with it again."`
}

// sinkArg is the sink.
type sinkArg struct {
	Sink string `arg:"" help:"Name of the sink."`
}

// sinkOffset is an offset as JSON. Its fields are for programs and stay.
type sinkOffset struct {
	Topic      string `json:"topic"`
	Partition  int32  `json:"partition"`
	Next       int64  `json:"next"`
	Generation int64  `json:"generation"`
	Owner      string `json:"owner,omitempty"`
	ClaimedAt  string `json:"claimedAt"`
	MovedAt    string `json:"movedAt,omitempty"`
}

type sinkOffsetsCommand struct {
	sinkArg
	outputFlag
}

// Run is called by kong.
func (c *sinkOffsetsCommand) Run(p *process) error {
	all, err := pgsink.Offsets(p.ctx, p.pool, c.Sink)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		for _, o := range all {
			err := writeJSON(p.out, sinkOffset{o.Topic, o.Partition, o.Next, o.Generation, o.Owner, moment(o.ClaimedAt), moment(o.MovedAt)})
			if err != nil {
				return err
			}
		}
		return nil
	}
	t := newTable(p.out, "TOPIC", "PARTITION", "NEXT", "GENERATION", "CLAIMED", "MOVED", "OWNER")
	for _, o := range all {
		t.row(o.Topic, number(o.Partition), strconv.FormatInt(o.Next, 10), strconv.FormatInt(o.Generation, 10), moment(o.ClaimedAt), moment(o.MovedAt), o.Owner)
	}
	return t.w.Flush()
}

// sinkRecord is a record in quarantine as JSON. Its fields are for programs and stay.
type sinkRecord struct {
	Topic         string `json:"topic"`
	Partition     int32  `json:"partition"`
	Offset        int64  `json:"offset"`
	Timestamp     string `json:"timestamp"`
	Class         string `json:"class"`
	Reason        string `json:"reason"`
	Attempts      int    `json:"attempts"`
	FirstFailure  string `json:"firstFailure"`
	QuarantinedAt string `json:"quarantinedAt"`
	KeyBytes      int    `json:"keyBytes"`
	Bytes         int    `json:"payloadBytes"`
	Key           []byte `json:"key,omitempty"` // base64, with --payload
	*shownPayload
}

type sinkListCommand struct {
	sinkArg
	Payload bool `help:"Show keys, values and headers too."`
	Limit   int  `placeholder:"N" default:"100" help:"Most records to show; default ${default}."`
	outputFlag
}

// Help is for --help.
func (sinkListCommand) Help() string {
	return "The oldest come first. Only the program of the sink can apply a record: it calls Sink.Requeue."
}

// Run is called by kong.
func (c *sinkListCommand) Run(p *process) error {
	if c.Limit < 1 {
		return usageError{fmt.Errorf("--limit: %d is no number of records", c.Limit)}
	}
	all, err := pgsink.Quarantined(p.ctx, p.pool, c.Sink, c.Limit)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		for _, f := range all {
			if err := writeJSON(p.out, c.recordOf(f)); err != nil {
				return err
			}
		}
		return nil
	}
	t := newTable(p.out, "TOPIC", "PARTITION", "OFFSET", "CLASS", "ATTEMPTS", "QUARANTINED", "REASON")
	for _, f := range all {
		r := f.Record
		t.row(r.Topic, number(r.Partition), strconv.FormatInt(r.Offset, 10), className(f.Class), strconv.Itoa(f.Attempts), moment(f.QuarantinedAt), f.Reason)
	}
	if err := t.w.Flush(); err != nil || !c.Payload {
		return err
	}
	for _, f := range all {
		r := f.Record
		fmt.Fprintf(p.out, "\ntopic %s, partition %d, offset %d\nkey: %q\n", oneLine(r.Topic), r.Partition, r.Offset, r.Key)
		for _, h := range r.Headers {
			fmt.Fprintf(p.out, "header %q: %q\n", h.Key, h.Value)
		}
		writePayload(p.out, r.Value, nil)
	}
	return nil
}

func (c *sinkListCommand) recordOf(f pgsink.Refused) sinkRecord {
	r := f.Record
	shown := sinkRecord{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: moment(r.Timestamp), Class: className(f.Class), Reason: f.Reason,
		Attempts: f.Attempts, FirstFailure: moment(f.FirstFailure), QuarantinedAt: moment(f.QuarantinedAt), KeyBytes: len(r.Key), Bytes: len(r.Value),
	}
	if c.Payload {
		shown.Key, shown.shownPayload = r.Key, payloadOf(r.Value, nil)
		for _, h := range r.Headers {
			shown.Headers = append(shown.Headers, shownHeader{h.Key, h.Value})
		}
	}
	return shown
}

type sinkDiscardCommand struct {
	sinkArg
	partitionArg
	Offset int64 `arg:"" help:"Offset of the record, as list shows it."`
}

// Help is for --help.
func (sinkDiscardCommand) Help() string {
	return "Nothing is kept of the record: list --payload shows it before."
}

// Run is called by kong.
func (c *sinkDiscardCommand) Run(p *process) error {
	if err := pgsink.Discard(p.ctx, p.pool, c.Sink, c.Topic, c.Partition, c.Offset); err != nil {
		return err
	}
	fmt.Fprintf(p.out, "topic %s, partition %d, offset %d was discarded\n", oneLine(c.Topic), c.Partition, c.Offset)
	return nil
}

// partitionArg is a partition that a sink reads.
type partitionArg struct {
	Topic     string `arg:"" help:"Topic that the sink reads."`
	Partition int32  `arg:"" help:"Partition of the topic."`
}

type sinkSetOffsetCommand struct {
	sinkArg
	partitionArg
	Offset int64 `arg:"" help:"Offset of the next record to apply."`
}

// Help is for --help.
func (sinkSetOffsetCommand) Help() string {
	return "It is for records that were deleted before they were read, and for a log that was cut. Stop the sink before. Records between the two " +
		"offsets are applied never, or once more."
}

// Run is called by kong.
func (c *sinkSetOffsetCommand) Run(p *process) error {
	if err := pgsink.SetOffset(p.ctx, p.pool, c.Sink, c.Topic, c.Partition, c.Offset); err != nil {
		return err
	}
	fmt.Fprintf(p.out, "topic %s, partition %d: the next record is %d\n", oneLine(c.Topic), c.Partition, c.Offset)
	return nil
}

type sinkResetCommand struct {
	sinkArg
	Topic string `arg:"" help:"Topic that the sink reads."`
}

// Help is for --help.
func (sinkResetCommand) Help() string {
	return "It is for a topic that was deleted and created again. Stop the sink before. Records that the topic still has are applied once more, " +
		"unless the sink begins at the latest."
}

// Run is called by kong.
func (c *sinkResetCommand) Run(p *process) error {
	if err := pgsink.Reset(p.ctx, p.pool, c.Sink, c.Topic); err != nil {
		return err
	}
	fmt.Fprintf(p.out, "topic %s: the sink has no offsets of it\n", oneLine(c.Topic))
	return nil
}

func number(partition int32) string { return strconv.FormatInt(int64(partition), 10) }
