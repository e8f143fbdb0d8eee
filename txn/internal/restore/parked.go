package restore

import (
	"errors"
	"fmt"
	"slices"
)

// ErrParked says that records wait in a store of parked keys that the topology does not have: their offsets are committed, so that nobody
// would ever process them.
var ErrParked = errors.New("the topology has no place for parked records there")

// checkParked stops a task whose source has lost its ParkKeys while records wait.
func (f Found) checkParked() error {
	if f.Blob == nil {
		return nil
	}
	for _, p := range f.Blob.Parked {
		if slices.ContainsFunc(f.Changelogs, func(c Changelog) bool { return c.Store == p.Store }) {
			continue
		}
		return &StopError{
			Task: f.Task, Cause: ErrParked, Reason: fmt.Sprintf("%d records wait in store %s", p.Records, p.Store),
			WayOut: f.waysOut("give the source its ParkKeys again, without the policies that park, until nothing waits", fromInput),
		}
	}
	return nil
}
