package admin

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
)

// FillEnds asks the cluster where the changelogs end, for tasks of an instance that does not run.
// Ends that the cluster does not answer stay unknown.
func (c *Client) FillEnds(ctx context.Context, tasks []TaskState) error {
	var topics []string
	for _, t := range tasks {
		for _, s := range t.Stores {
			if s.Changelog != "" {
				topics = append(topics, s.Changelog)
			}
		}
	}
	slices.Sort(topics)
	if topics = slices.Compact(topics); len(topics) == 0 {
		return nil // no topics would mean all of them
	}
	ends, err := c.adm.ListCommittedOffsets(ctx, topics...)
	if err != nil {
		return fmt.Errorf("listing the ends of the changelogs: %w", err)
	}
	partitions := map[string]int32{}
	ends.Each(func(o kadm.ListedOffset) { partitions[o.Topic]++ })
	for _, t := range tasks {
		for i := range t.Stores {
			s := &t.Stores[i]
			if end, ok := ends.Lookup(s.Changelog, t.Task.Partition); ok && end.Err == nil {
				s.End, s.Partitions = end.Offset, partitions[s.Changelog]
			}
		}
	}
	return nil
}
