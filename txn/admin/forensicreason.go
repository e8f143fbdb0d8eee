package admin

import (
	"context"
	"fmt"
	"strings"

	"github.com/onceward/onceward/topology/graph"
)

// notComparable says why state of a task can be right although it is not what the run has made;
// empty where it cannot. That is so where the task depends on anything but the records that its
// inputs hold now, and their order in each partition.
func (f *forensic) notComparable(ctx context.Context, t *forensicTask) (string, error) {
	if t.stopped || t.leaves {
		return "the task has not come to the end of its inputs in this run", nil
	}
	read := 0
	for i, src := range t.sub.Sources {
		if src.Delay == 0 {
			read++
		}
		if reason, err := f.notGiven(ctx, t, src, t.inputs[i]); reason != "" || err != nil {
			return reason, err
		}
	}
	if read > 1 {
		return "the task reads several inputs, and in which order it has taken their records depends on when they came", nil
	}
	if parks := t.graph.Parked(); len(parks) > 0 { // one for each source that has ParkKeys
		return "records of " + parks[0].Topic + " can be parked, and when they are released depends on the clock", nil
	}
	if lost := t.sub.LostOnRestart(); len(lost) > 0 {
		return "the store " + lost[0].Name + " of the task is LostOnRestart, and when it was emptied depends on starts and moves", nil
	}
	if _, scheduled := t.graph.NextDue(); scheduled {
		return "the task has schedules of the wall clock, which do not fire in this run", nil
	}
	return "", nil
}

// notGiven says why an input does not give again what the task has had of it.
func (f *forensic) notGiven(ctx context.Context, t *forensicTask, src graph.Source, q *forensicQueue) (string, error) {
	switch {
	case src.Delay > 0:
		_, end, err := f.cluster.LogBounds(ctx, src.Topic, t.id.Partition)
		if err != nil || end == 0 && q.next == 0 {
			return "", err
		}
		return "records were delayed in " + src.Topic + ", and when they came back depends on the clock", nil
	case src.Repartition:
		return "the task reads the repartition topic " + src.Topic + ", and how far it has come in what the other tasks write, and in which " +
			"order, cannot be told from their inputs", nil
	case src.Start.From != graph.Earliest:
		return fmt.Sprintf("the application begins with %s at %s, and the run at the start of the log", src.Topic, src.Start), nil
	case q.from > 0:
		return fmt.Sprintf("the records of %s[%d] below offset %d are deleted", q.topic, q.partition, q.from), nil
	}
	found, _, err := f.cluster.Topics(ctx, []string{src.Topic})
	if err != nil {
		return "", err
	}
	switch policy, known := found[src.Topic].Settings["cleanup.policy"]; {
	case !known:
		return "whether the topic " + src.Topic + " is compacted is not known without the permission DescribeConfigs", nil
	case strings.Contains(policy.Value, "compact"):
		return "the topic " + src.Topic + " is compacted, so that records can be gone that the state was made of", nil
	}
	return "", nil
}
