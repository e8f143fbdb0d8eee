package txn

import (
	"fmt"
	"strings"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/task"
)

// checkMode refuses what would mix a replay with the state of the live application, or leave
// something of a look at it.
func checkMode(t *topology.Topology, c Config) error {
	for _, before := range c.ModesBefore {
		if before >= topology.Forensic {
			return &ConfigError{"ModesBefore", fmt.Sprintf("no application has run in mode %s", before)}
		}
	}
	switch m := c.Mode; {
	case m > topology.Forensic:
		return &ConfigError{"Mode", fmt.Sprintf("%s is no mode", m)}
	case m == topology.Forensic:
		return &ConfigError{"Mode", "a running application commits its work; a forensic run is one without an application"}
	case m == topology.Replay && t.Application() == t.Name():
		return &ConfigError{"Application", fmt.Sprintf("a replay needs an application id of its own beside %s, because "+
			"it rebuilds the state from the start", t.Name())}
	}
	return nil
}

// modes are those of commits with which an instance goes on.
func (c Config) modes() []topology.Mode { return append([]topology.Mode{c.Mode}, c.ModesBefore...) }

// checkModes refuses an application that has committed in a mode with which this instance may not
// continue. Commit metadata that are too large for an offset commit are checked when their task is
// opened. That check is the decisive one; checkModes only keeps an instance with the wrong mode out
// of the group.
func (in *instance) checkModes(commits []broker.Offset) error {
	modes := in.app.cfg.modes()
	for _, c := range commits {
		committed, err := task.ParseCommitMetadata(c.Metadata)
		if err != nil || committed.IsOf(modes) {
			continue // others write metadata too, and what a newer build writes is refused elsewhere
		}
		return &ConfigError{"Mode", fmt.Sprintf("application %s has processed %s[%d] in mode %s, and would continue in mode %s: run it in mode %s, or "+
			"under another application id. To continue in mode %s, stop every instance and start with "+
			"--mode-before %s (txn.Config.ModesBefore)",
			in.app.topology.Application(), c.Topic, c.Partition, committed.Mode, in.app.cfg.Mode, committed.Mode, in.app.cfg.Mode,
			strings.ToLower(committed.Mode.String()))}
	}
	return nil
}
