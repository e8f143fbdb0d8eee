//go:build onceward_failpoints

package txn_test

import (
	"testing"

	"github.com/onceward/onceward/txn"
)

// planOver is why a member joins again before its heartbeat tells it to.
const planOver = "an instance has given up tasks that move, or has left"

// forced returns how often instances have joined again because a plan was over.
func (s *peerScene) forced(instances ...string) (n int) {
	for _, instance := range instances {
		n += len(s.logged(instance, planOver))
	}
	return n
}

// TestPlanIsOver: when a task moves, the instances that give nothing up are told to join again once
// its owner has given it up. When an instance leaves, the ones that stay are told.
// TestPlanIsOverWithoutPeers is the control.
func TestPlanIsOver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := pairOf(t, nil)
		s.start("three", nil)
		s.await("a task of the third instance", func() bool { return s.has("three", 1) })
		moved := s.forced("one", "two", "three")
		if moved == 0 {
			t.Error("a task has moved, and no instance was told")
		}
		s.stop("three")
		s.await("two tasks each", s.balanced)
		if left := s.forced("one", "two") - moved; left < 1 {
			t.Error("an instance has left, and no other one was told")
		}
	})
}

// TestPlanIsOverWithoutPeers: no instance is told, and tasks move all the same.
func TestPlanIsOverWithoutPeers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newPeerScene(t)
		for _, instance := range []string{"one", "two", "three"} {
			s.start(instance, func(cfg *txn.Config) { cfg.Peers.Listen = txn.PeersOff })
		}
		s.await("a task of the third instance", func() bool { return s.has("three", 1) || s.has("three", 2) })
		s.stop("three")
		s.await("two tasks each", s.balanced)
		if n := s.forced("one", "two", "three"); n != 0 {
			t.Errorf("without peers, instances were told %d times", n)
		}
	})
}

// TestStopThatRemainsIsNotOver: an instance that remains a member over its restart does not make the
// others join again. They would wait for it.
func TestStopThatRemainsIsNotOver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := pairOf(t, func(_ string, cfg *txn.Config) { cfg.Remain = true })
		before := s.forced("one", "two")
		s.stop("two")
		s.start("two", func(cfg *txn.Config) { cfg.Remain = true })
		s.await("two tasks each", func() bool { return s.balanced() && s.connected() })
		if n := s.forced("one", "two"); n != before {
			t.Errorf("instances were told %d times", n-before)
		}
	})
}
