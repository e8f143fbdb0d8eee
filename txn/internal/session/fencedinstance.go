package session

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// errTwin says that the group has given this member's place to another process.
var errTwin = fmt.Errorf("the group has another member in this place: %w", kerr.FencedInstanceID)

// fencedAsk is how long the end of a membership waits for the group to say whether another process
// has taken it.
const fencedAsk = 5 * time.Second

// unlessFenced returns the failure after which a membership is begun again, unless it came of
// another process that runs as the same instance: joining again would throw that one out. A worker
// can notice first, by what the other has committed or by its producers, while the heartbeat that
// tells why is still on its way.
func (s *Session) unlessFenced(err error) error {
	member, generation := s.member()
	if member == "" {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), fencedAsk)
	defer cancel()
	fenced, askErr := s.cfg.Cluster.Fenced(ctx, member, generation, s.cfg.Directory.Instance())
	if askErr != nil {
		s.cfg.Logger.Warn("whether another process runs as this instance is not known", "error", askErr)
		return err
	}
	if now, _ := s.member(); !fenced || now != member {
		return err // an own rejoin takes the place of the old member as well
	}
	return fmt.Errorf("%w: %w", errTwin, err)
}
