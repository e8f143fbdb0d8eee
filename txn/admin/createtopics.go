package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/topics"
)

// CreateTopicsOptions say which missing topics of an application are created, and how.
type CreateTopicsOptions struct {
	// Topics are the user's topics to create; none are all that are missing.
	Topics []string
	// Partitions is their number of partitions where it does not follow from other topics; 0 is no
	// number.
	Partitions int32
	// Replicas and MinInSync are the number of replicas and min.insync.replicas of the created
	// topics; 0 is the cluster's default. If both are 0, internal topics get those of the rounds
	// topic, if that exists.
	Replicas  int16
	MinInSync int
	// Internal creates internal topics too, as a start does.
	Internal bool
	// DryRun finds out what would be created, and creates nothing.
	DryRun bool
}

// CreatedTopics is what [Application.CreateTopics] has created, or with a dry run would create. Its
// JSON form is for programs, and its fields stay.
type CreatedTopics struct {
	Application string `json:"application"`
	DryRun      bool   `json:"dry_run"`
	// Topics are the user's in the order of their names, then the internal ones.
	Topics []CreatedTopic `json:"topics"`
}

// CreatedTopic is a topic that did not exist.
type CreatedTopic struct {
	Topic string `json:"topic"`
	// Use is what it is for, such as "input".
	Use        string `json:"use"`
	Partitions int32  `json:"partitions"`
	// Because says what the number of partitions follows from.
	Because string `json:"because"`
	// Replicas is their number, 0 for the cluster's default.
	Replicas int16 `json:"replicas,omitempty"`
	// Settings are those that the topology needs; the cluster's defaults apply to all others.
	Settings map[string]string `json:"settings"`
}

// CreateTopics creates the topics of the topology that are missing, and alters none that exists.
// Inputs get the number of partitions of the changelogs or other inputs of their tasks, or
// Partitions if there are none. All other topics of the user get Partitions, or the number of the
// largest input.
//
// The settings are the cluster's defaults, apart from those without which the application would not
// start. If an inbox keeps ids for less than Kafka's default of seven days, its input gets that
// time as retention.ms. The topic of a restored table (topology.RestoreFromTopic) is compacted.
//
// A [Refusal] says what the options lack. Instances may run. The principal needs Create and
// Describe on the topics. After an error in the middle, topics may have been created; call it
// again.
func (a *Application) CreateTopics(ctx context.Context, o CreateTopicsOptions) (CreatedTopics, error) {
	report := CreatedTopics{Application: a.topology.Application(), DryRun: o.DryRun, Topics: []CreatedTopic{}}
	cluster, err := broker.Connect(ctx, a.client.cfg, report.Application)
	if err != nil {
		return report, err
	}
	defer cluster.Close()
	missing, err := topics.Prospect(ctx, cluster, a.topology, topics.CreateOptions{
		Names: o.Topics, Partitions: o.Partitions, Internal: o.Internal,
		Options: topics.Options{Replicas: o.Replicas, InSyncMin: o.MinInSync},
	})
	if cannot, ok := errors.AsType[*topics.CreateError](err); ok {
		return report, refuse("%s", cannot.Reason)
	}
	if err == nil && !o.DryRun {
		missing, err = topics.Create(ctx, cluster, missing)
	}
	for _, n := range missing {
		report.Topics = append(report.Topics, CreatedTopic{
			Topic: n.Name, Use: n.Use, Partitions: n.Partitions, Because: n.Because, Replicas: n.Replicas, Settings: n.Settings,
		})
	}
	if err != nil {
		return report, fmt.Errorf("creating topics of %s: %w", report.Application, err)
	}
	return report, nil
}
