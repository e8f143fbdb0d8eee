package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/txn/admin"
)

// effectsListCommand shows the effects of a ledger.
type effectsListCommand struct {
	effectsFlags
	Stale  bool     `help:"Read also what may be behind: while a task is restored, has stopped, was lost, or a commit is in doubt."`
	Status []string `placeholder:"STATUS" help:"Show effects with this status, such as UNKNOWN. May be given several times; then one of them is enough."`
	Limit  int64    `placeholder:"N" default:"100" help:"Most effects to show, 0 for all; default ${default}."`
	outputFlag
}

// Help is for --help.
func (c *effectsListCommand) Help() string {
	return "The statuses are RECEIVED, STARTED, COMPLETED, FAILED_RETRYABLE, FAILED_TERMINAL, UNKNOWN and SUPPRESSED. Use effects " +
		"resolve for effects that are UNKNOWN or SUPPRESSED. NEXT is the next step of an effect, the expiry of a claim " +
		"included. Payloads are not shown: effects show --payload does that. The command reads all rows, up to the limit."
}

// effectLine is a line of the list as JSON.
type effectLine struct {
	Type string `json:"type"` // effect
	shownEffect
}

func (c *effectsListCommand) Run(p *process) (err error) {
	if c.Limit < 0 {
		return usage("--limit: %d is no number of effects", c.Limit)
	}
	var all []string
	for s := effect.Received; s <= effect.Suppressed; s++ {
		all = append(all, s.String())
	}
	only, err := statusesOf(c.Status, all)
	if err != nil {
		return err
	}
	o, err := c.open(p.ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	list := newStatusList(p.out, c.Output, o.name, only, c.Limit, "ID", "PARTITION", "STATUS", "AGE", "ATTEMPTS", "LOOKUPS", "NEXT",
		"IDEMPOTENCY KEY", "TARGET", "REASON")
	for _, partition := range o.place.partitions {
		if err = c.partition(p.ctx, o, partition, list); err != nil {
			break
		}
	}
	return list.end(err)
}

// partition lists the effects of a partition.
func (c *effectsListCommand) partition(ctx context.Context, o openEffects, partition int32, list *statusList) (err error) {
	claims, err := o.claimed(ctx, partition, c.Stale)
	if err != nil {
		return explainStale(err, c.Stale)
	}
	scan, err := o.Scan(ctx, admin.ScanRequest{Store: o.name, Partition: partition, Stale: c.Stale})
	if err != nil {
		return explainStale(err, c.Stale)
	}
	defer func() { err = errors.Join(err, scan.Close()) }()
	if err := list.partition(scan.At); err != nil {
		return err
	}
	now := time.Now()
	for row, err := range scan.Rows() {
		if err != nil {
			return err
		}
		e, err := o.read(scan.At, row, claims)
		if err != nil {
			return err
		}
		err = list.row(e.Status.String(), effectLine{"effect", e.shown(now)}, e.id, fmt.Sprint(partition), e.Status.String(),
			e.age(now).Round(time.Second).String(), fmt.Sprint(e.Attempts), fmt.Sprint(e.Lookups), e.nextText(), e.IdempotencyKey,
			orNone(e.Target), e.Reason)
		if err != nil {
			return err
		}
	}
	return nil
}
