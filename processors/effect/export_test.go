package effect

import (
	"time"

	"github.com/onceward/onceward/schemas"
)

// Clock replaces the clock that says whether a claim holds.
func Clock(now func() time.Time) Option {
	return func(s *settings) error {
		s.now = now
		return nil
	}
}

// DueKey and DueCodec are those of the timer queue.
type DueKey = dueKey

func DueCodec() schemas.Codec[DueKey] { return dueCodec{} }
