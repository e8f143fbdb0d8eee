package txn

import (
	"fmt"

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
		return &ConfigError{"Mode", "a running application commits what it does; a forensic run is one without an application"}
	case m == topology.Replay && t.Application() == t.Name():
		return &ConfigError{"Application", fmt.Sprintf("a replay needs an application id of its own beside %s, because "+
			"it builds state anew", t.Name())}
	}
	return nil
}

// modes are those of commits with which an instance goes on.
func (c Config) modes() []topology.Mode { return append([]topology.Mode{c.Mode}, c.ModesBefore...) }

// checkModes refuses an application that has committed in a mode which is not ours to go on with. A
// commit that is too large for its metadata is looked at when its task is opened, which is the look
// that counts: this one is there so that nothing of an instance with the wrong mode joins the
// group.
func (in *instance) checkModes(commits []broker.Offset) error {
	modes := in.app.cfg.modes()
	for _, c := range commits {
		blob, err := task.ParseBlob(c.Metadata)
		if err != nil || blob.IsOf(modes) {
			continue // others write metadata too, and what a newer build writes is refused elsewhere
		}
		return &ConfigError{"Mode", fmt.Sprintf("application %s has processed %s[%d] in mode %s, and would go on in mode %s: run it in mode %s, or "+
			"under another application id; if all of it is to go on in mode %s, stop every instance and name %s as a mode before",
			in.app.topology.Application(), c.Topic, c.Partition, blob.Mode, in.app.cfg.Mode, blob.Mode, in.app.cfg.Mode, blob.Mode)}
	}
	return nil
}
