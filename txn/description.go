package txn

import (
	"encoding/json"
	"fmt"

	"github.com/onceward/onceward/topology/graph"
)

// changesMax is how many changes of a topology are logged.
const changesMax = 20

// tellChange logs a difference between the topology and the one of the last start on this
// directory, and stores the description for the next start and for onceward plan. A change is no
// reason to stop: names tell what belongs together. A task whose stores or inputs no longer fit is
// judged when it is opened.
func (in *instance) tellChange() error {
	description := in.app.topology.Description()
	stored, now := in.dir.Fingerprint(), description.Fingerprint
	if stored != now {
		changes, err := in.changes(description, stored)
		if err != nil {
			// Only a log line is lost, and the description is written again below.
			in.app.log.Warn("the description of the topology that ran before cannot be read", "error", err)
		}
		in.app.log.Info("the topology has changed since the last start on this state directory",
			"fingerprint_before", stored, "fingerprint", now, "changes", changes)
		if err := in.dir.SetFingerprint(now); err != nil {
			return err
		}
	}
	if err := in.removeOldGlobals(description, stored); err != nil {
		return err
	}
	text, err := json.Marshal(description)
	if err != nil {
		return fmt.Errorf("describing the topology: %w", err)
	}
	return in.dir.SetDescription(text)
}

// changes lists in what a topology differs from the one of that fingerprint; nothing if it is not
// known what that was.
func (in *instance) changes(now graph.Description, fingerprint string) ([]string, error) {
	text, err := in.dir.Description()
	if err != nil || text == nil {
		return nil, err
	}
	var before graph.Description
	if err := json.Unmarshal(text, &before); err != nil {
		return nil, fmt.Errorf("the description in the state directory: %w", err)
	}
	if before.Fingerprint != fingerprint {
		return nil, nil // a build that keeps none has run in between
	}
	var changes []string
	for _, d := range graph.Compare(before, now) {
		if len(changes) == changesMax {
			return append(changes, "and more, which onceward plan shows"), nil
		}
		changes = append(changes, d.String())
	}
	return changes, nil
}
