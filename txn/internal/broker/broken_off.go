//go:build !onceward_broken

package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The seams of the negative controls, which do nothing here: see broken_on.go.

func brokenIsolation(level kgo.IsolationLevel) kgo.IsolationLevel { return level }

func brokenOffsets(context.Context, *Coordinator, int32, Membership, []Offset) (broken bool, err error) {
	return false, nil
}

func brokenCommit(*Producer) bool { return false }

func brokenAwait(*Producer) {}
