package worker

import (
	"context"
	"errors"

	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/protocol"
)

// failure is what an effect answers that is made to fail at a point before or after it.
type failure struct {
	before, after failpoint.Point
	// unknown is the answer of an effect whose outcome is not known, refused that of one that the
	// broker refused.
	unknown, refused protocol.EventKind
}

var failures = map[protocol.EffectKind]failure{
	protocol.Stream: {after: failpoint.StreamAfter},
	protocol.Flush: {
		failpoint.FlushBefore, failpoint.FlushAfter, protocol.ProducerLost, protocol.FlushFailed,
	},
	protocol.SendOffsets: {
		failpoint.OffsetsBefore, failpoint.OffsetsAfter, protocol.ProducerLost, protocol.OffsetsRefused,
	},
	protocol.End: {
		failpoint.EndBefore, failpoint.EndAfter, protocol.CommitUnknown, protocol.CommitUnknown,
	},
	protocol.Abort: {
		failpoint.AbortBefore, failpoint.AbortAfter, protocol.AbortUnknown, protocol.AbortUnknown,
	},
	// With an error this is no answer, see run.
	protocol.Ask: {
		failpoint.AskBefore, failpoint.AskAfter, protocol.FoundOurs, protocol.FoundOurs,
	},
	protocol.Apply: {
		failpoint.ApplyBefore, failpoint.ApplyAfter, protocol.ApplyFailed, protocol.ApplyFailed,
	},
}

func (f failure) answer(err error) protocol.EventKind {
	if errors.Is(err, failpoint.ErrRefused) {
		return f.refused
	}
	return f.unknown
}

// doOrFail is do with failpoints.
func (t *committer) doOrFail(ctx context.Context, c command) (protocol.EventKind, error) {
	f, ok := failures[c.kind]
	if !ok {
		return t.do(ctx, c)
	}
	if err := t.w.cfg.Failpoints.Hit(ctx, f.before); err != nil {
		return f.answer(err), err
	}
	kind, err := t.do(ctx, c)
	if err != nil {
		return kind, err
	}
	err = t.w.cfg.Failpoints.Hit(ctx, f.after)
	switch {
	case err == nil:
		return kind, nil
	case c.kind == protocol.Stream:
		c.round.committerState.err, c.round.committerState.unusable = err, true // answered by the flush
		return kind, err
	default:
		return f.answer(err), err
	}
}
