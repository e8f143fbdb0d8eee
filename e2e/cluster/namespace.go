package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// deleteNamed deletes the topics and groups whose names start with prefix, on a cluster that goes
// on after the tests.
func (c *Cluster) deleteNamed(ctx context.Context, prefix string) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	groups, err := c.admin.ListGroups(ctx)
	if err != nil {
		return fmt.Errorf("cluster: list the groups of %s: %w", prefix, err)
	}
	for _, group := range groups.Groups() {
		if !strings.HasPrefix(group, prefix) {
			continue
		}
		err := await(ctx, func(ctx context.Context) (string, error) {
			_, err := c.admin.DeleteGroup(ctx, group)
			if errors.Is(err, kerr.NonEmptyGroup) { // members that were killed live on until their session ends
				return err.Error(), nil
			}
			return "", err
		})
		if err != nil {
			return fmt.Errorf("cluster: delete group %s: %w", group, err)
		}
	}
	topics, err := c.admin.ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("cluster: list the topics of %s: %w", prefix, err)
	}
	for _, topic := range topics.Names() {
		if !strings.HasPrefix(topic, prefix) {
			continue
		}
		if _, err := c.admin.DeleteTopic(ctx, topic); err != nil {
			return fmt.Errorf("cluster: delete topic %s: %w", topic, err)
		}
	}
	return nil
}
