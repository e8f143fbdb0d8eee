package worker

import (
	"context"

	"github.com/onceward/onceward/txn/internal/failpoint"
	"github.com/onceward/onceward/txn/internal/protocol"
)

// failures are the points around a turn's effects, and what an effect answers that is made to fail: that its outcome is not known.
var failures = map[protocol.EffectKind]struct {
	before, after failpoint.Point
	answer        protocol.EventKind
}{
	protocol.Stream:      {"", failpoint.StreamAfter, 0},
	protocol.Flush:       {failpoint.FlushBefore, failpoint.FlushAfter, protocol.ProducerLost},
	protocol.SendOffsets: {failpoint.OffsetsBefore, failpoint.OffsetsAfter, protocol.ProducerLost},
	protocol.End:         {failpoint.EndBefore, failpoint.EndAfter, protocol.CommitUnknown},
	protocol.Abort:       {failpoint.AbortBefore, failpoint.AbortAfter, protocol.AbortUnknown},
	protocol.Ask:         {failpoint.AskBefore, failpoint.AskAfter, 0},
	protocol.Apply:       {failpoint.ApplyBefore, failpoint.ApplyAfter, protocol.ApplyFailed},
}

// doOrFail is do in a build with failpoints.
func (t *turn) doOrFail(ctx context.Context, c command) (protocol.EventKind, error) {
	f, ok := failures[c.kind]
	if !ok {
		return t.do(ctx, c)
	}
	if err := failpoint.Hit(ctx, f.before); err != nil && f.answer != 0 {
		return f.answer, err
	}
	kind, err := t.do(ctx, c)
	if err != nil {
		return kind, err
	}
	if err := failpoint.Hit(ctx, f.after); err != nil {
		switch {
		case f.answer != 0:
			return f.answer, err
		case c.kind == protocol.Stream:
			c.round.turnState.err, c.round.turnState.unusable = err, true
		}
	}
	return kind, err
}
