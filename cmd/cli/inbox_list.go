package cli

import (
	"errors"
	"fmt"
	"slices"

	"github.com/onceward/onceward/processors/inbox"
)

// inboxListCommand shows the ids that an inbox knows.
type inboxListCommand struct {
	inboxFlags
	Status []string `placeholder:"STATUS" help:"Show ids with this status: PROCESSED, DUPLICATE or QUARANTINED. May be given several times; then one of them is enough."`
	Limit  int64    `placeholder:"N" default:"100" help:"Most ids to show, 0 for all; default ${default}."`
}

// Help is for --help.
func (c *inboxListCommand) Help() string {
	return "A row is PROCESSED, or, by a business key, DUPLICATE or QUARANTINED. What has no row has another place: copies of one id are counted " +
		"by status, and so is what came too late (IGNORED); records that failed are in the dead-letter topic (QUARANTINED), and a task that tries " +
		"one again says so in status (RETRYABLE_FAILED). What an inbox has forgotten is not shown, also where state scan still finds it. All " +
		"rows are read, to the limit."
}

// elsewhere says where an operator finds what is of a status that no row of an inbox has, "" for
// the others.
func elsewhere(s inbox.Status) string {
	switch s {
	case inbox.Received:
		return "it exists for calls to other systems only; see effects list"
	case inbox.Claimed:
		return "it exists for calls to other systems only, which are STARTED; see effects list"
	case inbox.RetryableFailed:
		return "status shows the task that tries again"
	case inbox.Ignored:
		return "what came too late is counted in status as late, and goes where the topology sends it"
	case inbox.Superseded:
		return "a projection decides that by versions, and counts it in status as stale"
	default:
		return ""
	}
}

// inboxLine is a line of the list as JSON.
type inboxLine struct {
	Type      string `json:"type"` // id
	Partition int32  `json:"partition"`
	inboxEntry
}

func (c *inboxListCommand) Run(p *process) (err error) {
	if c.Limit < 0 {
		return usage("--limit: %d is no number of ids", c.Limit)
	}
	only, err := c.statuses()
	if err != nil {
		return err
	}
	o, err := c.open(p.ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	list := newStatusList(p.out, c.Output, o.name, only, c.Limit, "ID", "PARTITION", "STATUS", "POSITION", "FIRST SEEN", "PAYLOAD")
	for _, partition := range o.place.partitions {
		err = o.entries(p.ctx, partition, list.partition, func(id string, e inbox.Entry) error {
			row := inboxEntryOf(id, e)
			return list.row(row.Status, inboxLine{"id", partition, row},
				id, fmt.Sprint(partition), row.Status, row.advancesText(), momentText(row.FirstSeen), row.Payload)
		})
		if err != nil {
			break
		}
	}
	return list.end(err)
}

// statuses returns those to show. One that no row has is a mistake: an empty list would look like
// the answer.
func (c *inboxListCommand) statuses() ([]string, error) {
	var all []string
	for s := inbox.Received; s <= inbox.Superseded; s++ {
		all = append(all, s.String())
		if place := elsewhere(s); place != "" && slices.Contains(c.Status, s.String()) {
			return nil, usage("--status: no row of an inbox is %s: %s", s, place)
		}
	}
	return statusesOf(c.Status, all)
}
