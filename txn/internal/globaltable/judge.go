package globaltable

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/topics"
)

// Cause is why the rows of a table are read again from the start of the topic.
type Cause string

// The causes.
const (
	// Recreated: the topic has another id.
	Recreated Cause = "recreated"
	// Trimmed: the log begins behind the position.
	Trimmed Cause = "trimmed"
	// Shortened: the log ends before the position.
	Shortened Cause = "shortened"
	// TombstonesExpired: something is missing for so long that deletions in it may be gone.
	TombstonesExpired Cause = "tombstones_expired"
	// Declaration: topic, codecs or layout may be others than those of the rows.
	Declaration Cause = "declaration"
	// Damaged: the database cannot be opened.
	Damaged Cause = "damaged"
)

// lostError says that the rows of a table cannot be gone on with.
type lostError struct {
	cause  Cause
	reason string
}

func (e *lostError) Error() string { return string(e.cause) + ": " + e.reason }

// tombstoneMargin is the part of delete.retention.ms for which something may be missing.
const tombstoneMargin = 0.8

// judge returns why the rows at positions at cannot be gone on with, nothing if they can.
func judge(at state.Positions, store string, topic topics.Topic, ends map[int32]int64, now time.Time) (why Cause, reason string) {
	missing := false
	for _, in := range at.Inputs {
		if in.Topic != topic.Name {
			return Declaration, fmt.Sprintf("the rows are those of topic %s", in.Topic)
		}
	}
	for p, end := range ends {
		in, _ := at.Input(topic.Name, p)
		missing = missing || in.Offset < end
	}
	read, known := at.Changelog(store)
	switch {
	case known && read.TopicID != topic.ID:
		return Recreated, fmt.Sprintf("the topic had the id %x and has %x", read.TopicID, topic.ID)
	case known && missing && expired(at, topic, now):
		return TombstonesExpired, fmt.Sprintf("something is missing since %s, and the topic keeps deletions for %s (delete.retention.ms)",
			time.UnixMilli(at.WrittenAt).UTC().Format(time.RFC3339), topic.DeleteRetention)
	}
	return "", ""
}

// expired reports whether deletions behind the positions may be gone.
func expired(at state.Positions, topic topics.Topic, now time.Time) bool {
	return topic.Compacted && topic.DeleteRetention > 0 && at.WrittenAt > 0 &&
		now.Sub(time.UnixMilli(at.WrittenAt)) > time.Duration(tombstoneMargin*float64(topic.DeleteRetention))
}
