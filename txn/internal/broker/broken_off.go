//go:build !onceward_failpoints

package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/txn/internal/failpoint"
)

// The seams of the negative controls, which do nothing here: see broken_on.go.

func brokenIsolation(_ failpoint.Set, level kgo.IsolationLevel) kgo.IsolationLevel { return level }

func brokenOffsets(context.Context, failpoint.Set, *Coordinator, int32, Membership, []Offset) (broken bool, err error) {
	return false, nil
}

func brokenIdentity(*Cluster, string, *kmsg.InitProducerIDResponse) {}

func brokenRemoval(_ failpoint.Set, member string) string { return member }

func brokenCommit(*Producer) bool { return false }

func brokenAwait(*Producer) {}
