package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TopicInfo is what the cluster says of a topic.
type TopicInfo struct {
	Name       string
	ID         [16]byte
	Partitions int32
	// Replicas is the number of replicas of the partition that has the fewest.
	Replicas int
	// Led says that every partition has a leader.
	Led bool
	// Allowed are the operations on the topic that this process may do, sorted; all that the
	// runtime knows if the broker does not say.
	Allowed []Operation
	// Settings are the topic's configuration by Kafka's names; empty without the permission to see
	// it.
	Settings map[string]Setting
}

// Setting is one value of a topic's configuration.
type Setting struct {
	Value string
	// Default is what the cluster gives to topics that do not set it, empty if it is not known.
	Default string
	// Own says that the topic sets it itself.
	Own bool
}

// Topics describes the topics of those names that are there. One that this process may not even see
// is in hidden.
func (c *Cluster) Topics(ctx context.Context, names []string) (found map[string]TopicInfo, hidden []string, err error) {
	found, hidden, err = c.TopicMetadata(ctx, names)
	if err != nil {
		return nil, nil, err
	}
	return found, hidden, c.addSettings(ctx, found)
}

// TopicMetadata is Topics without the settings, in one request.
func (c *Cluster) TopicMetadata(ctx context.Context, names []string) (found map[string]TopicInfo, hidden []string, err error) {
	asked := []kmsg.MetadataRequestTopic{} // nil would mean all
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		asked = append(asked, t)
	}
	return c.topicMetadata(ctx, asked)
}

// AllTopics is TopicMetadata for all topics that this process may see, without the internal ones of
// Kafka.
func (c *Cluster) AllTopics(ctx context.Context) (map[string]TopicInfo, error) {
	found, _, err := c.topicMetadata(ctx, nil)
	return found, err
}

// topicMetadata asks for some topics, or for all that are not internal ones of Kafka if asked is
// nil.
func (c *Cluster) topicMetadata(
	ctx context.Context, asked []kmsg.MetadataRequestTopic,
) (found map[string]TopicInfo, hidden []string, err error) {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation, req.IncludeTopicAuthorizedOperations = false, true
	req.Topics = asked
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return nil, nil, fmt.Errorf("asking for topics: %w", err)
	}
	found = map[string]TopicInfo{}
	for _, t := range resp.Topics {
		if t.Topic == nil || asked == nil && t.IsInternal {
			continue
		}
		switch err := kerr.ErrorForCode(t.ErrorCode); {
		case errors.Is(err, kerr.UnknownTopicOrPartition):
			continue
		case errors.Is(err, kerr.TopicAuthorizationFailed):
			hidden = append(hidden, *t.Topic)
			continue
		case err != nil && !errors.Is(err, kerr.LeaderNotAvailable):
			return nil, nil, fmt.Errorf("asking for topic %s: %w", *t.Topic, err)
		}
		info := TopicInfo{
			Name: *t.Topic, ID: t.TopicID, Partitions: int32(len(t.Partitions)), Led: t.ErrorCode == 0 && len(t.Partitions) > 0,
			Allowed: allowed(t.AuthorizedOperations),
		}
		for i, p := range t.Partitions {
			if i == 0 || len(p.Replicas) < info.Replicas {
				info.Replicas = len(p.Replicas)
			}
			info.Led = info.Led && p.Leader >= 0
		}
		found[info.Name] = info
	}
	slices.Sort(hidden)
	return found, hidden, nil
}

// addSettings asks for the configuration of the topics that may be asked about.
func (c *Cluster) addSettings(ctx context.Context, topics map[string]TopicInfo) error {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		if slices.Contains(topics[name].Allowed, DescribeConfigs) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	described, err := c.adm.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return fmt.Errorf("asking for topic configurations: %w", err)
	}
	for _, rc := range described {
		if errors.Is(rc.Err, kerr.UnknownTopicOrPartition) { // its creation has not got to every broker
			continue
		}
		if rc.Err != nil {
			return fmt.Errorf("asking for the configuration of %s: %w", rc.Name,
				c.cfg.denied(rc.Err, attempt{operation: DescribeConfigs, topic: rc.Name}))
		}
		info := topics[rc.Name]
		info.Settings = map[string]Setting{}
		for _, cfg := range rc.Configs {
			s := Setting{Value: cfg.MaybeValue(), Own: cfg.Source == kmsg.ConfigSourceDynamicTopicConfig}
			if !s.Own {
				s.Default = s.Value
			}
			for _, syn := range cfg.Synonyms {
				if s.Default == "" && syn.Source != kmsg.ConfigSourceDynamicTopicConfig && syn.Value != nil {
					s.Default = *syn.Value
				}
			}
			info.Settings[cfg.Key] = s
		}
		topics[rc.Name] = info
	}
	return nil
}

// CreateTopic creates a topic; -1 replicas are the cluster's default. One that was there already is
// no error, and stays as it is: created is false.
func (c *Cluster) CreateTopic(
	ctx context.Context, name string, partitions int32, replicas int16, configs map[string]*string,
) (created bool, err error) {
	resp, err := c.adm.CreateTopic(ctx, partitions, replicas, configs, name)
	if err == nil {
		err = resp.Err
	}
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return false, nil
	}
	if err != nil && resp.ErrMessage != "" {
		err = fmt.Errorf("%w (%s)", err, resp.ErrMessage)
	}
	return err == nil, c.cfg.denied(err, attempt{operation: Create, topic: name})
}
