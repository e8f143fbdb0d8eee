//go:build onceward_broken

package worker

import (
	"os"
	"time"
)

// The negative controls of the soak: the environment names the one mechanism that does not work. They only exist with the build tag.
var broken = os.Getenv("ONCEWARD_BROKEN")

// brokenPause keeps transactions open for so long that a kill meets them.
const brokenPause = 200 * time.Millisecond

// brokenBeforeEnd applies the round before it is known to be committed if ONCEWARD_BROKEN is "apply", and writes it down, or a kill would
// take it back. With any value it waits.
func brokenBeforeEnd(r *round) error {
	if broken == "apply" {
		for _, c := range r.contributions {
			if err := c.Apply(); err != nil {
				return err
			}
			if c.Task.State == nil {
				continue
			}
			if err := c.Task.State.Database().Flush(); err != nil {
				return err
			}
		}
	}
	if broken != "" {
		time.Sleep(brokenPause)
	}
	return nil
}

// brokenApplied says that the round is in the databases already.
func brokenApplied(*round) bool { return broken == "apply" }
