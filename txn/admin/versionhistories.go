package admin

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/onceward/onceward/state"
)

// histories compares the rows of both sides. In a store of histories a version is judged by when it
// was superseded, which the row that follows in its key says: its difference waits for that. Rows
// of one key follow each other, except that rows of longer keys can be in between.
type histories struct {
	*replay
	// local waits for rows of the state, replayed for rows of the changelog.
	local, replayed []Difference
}

// hold keeps a difference until it can be judged, by the rows of the side that has its row.
func (h *histories) hold(d Difference) {
	if d.Kind == Missing {
		h.replayed = append(h.replayed, d)
	} else {
		h.local = append(h.local, d)
	}
}

// settle judges what the rows that come now decide about.
func (h *histories) settle(local, replayed state.Entry, order int) (err error) {
	if order <= 0 {
		if h.local, err = h.settleSide(h.local, local.Key); err != nil {
			return err
		}
	}
	if order >= 0 {
		h.replayed, err = h.settleSide(h.replayed, replayed.Key)
	}
	return err
}

// end judges what no row has decided about.
func (h *histories) end() error {
	_, err := h.settleSide(h.local, nil)
	_, otherErr := h.settleSide(h.replayed, nil)
	return errors.Join(err, otherErr)
}

// settleSide returns those of waiting that the next row, nil for none, does not decide about.
func (h *histories) settleSide(waiting []Difference, next []byte) ([]Difference, error) {
	if len(waiting) == 0 {
		return waiting, nil
	}
	now := binary.BigEndian.AppendUint64(nil, uint64(h.streamTime())) // no version begins later
	kept := waiting[:0]
	for _, d := range waiting {
		end := len(d.Key) - len(now) // of the key, in front of the time
		among := next != nil && end >= 0 && bytes.HasPrefix(next, d.Key[:end])
		var err error
		switch {
		case among && len(next) == len(d.Key):
			err = h.judgeVersion(&d, int64(binary.BigEndian.Uint64(next[end:])), true)
		case among && bytes.Compare(next[end:], now) <= 0:
			kept = append(kept, d) // the row of a longer key: more of this one can come
		default:
			err = h.judgeVersion(&d, 0, false)
		}
		if err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// judgeVersion judges a version. It gets the time at which the next version of its key begins, if
// there is one. Two kinds of versions are not visible any more, and each side may have them or not.
// One was superseded at the retention limit or before it; the other is a last version that says
// that the key was deleted before the limit. If a version was superseded later, the changelog may
// have lost it to compaction, and may have lost a deletion together with its tombstone.
func (h *histories) judgeVersion(d *Difference, next int64, superseded bool) error {
	l, now := h.outcome.Layout, h.streamTime()
	p, err := l.Parts(d.Key, d.row())
	if err != nil {
		return h.judge(d, false)
	}
	deletion := p.Value == nil
	behind := func(ms int64) bool { return !l.Live(ms-1, now) }
	if superseded && behind(next) || !superseded && deletion && behind(p.ValidFrom) {
		return nil
	}
	return h.judge(d, (superseded || deletion) && h.lost(d))
}
