//go:build onceward_broken

package app

import (
	"os"
	"strconv"
)

// brokenMessageID is broken on purpose if ONCEWARD_BROKEN is "dedupe": every delivery gets an id of its own.
func brokenMessageID(r inputRecord, id string) string {
	if os.Getenv("ONCEWARD_BROKEN") == "dedupe" {
		return strconv.FormatUint(uint64(r.Value.ID), 10)
	}
	return id
}
