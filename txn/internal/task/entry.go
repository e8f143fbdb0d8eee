package task

import (
	"fmt"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/broker"
)

// Entry is one thing that drives a task: a record of one of its inputs, or a punctuation by the
// wall clock. It is what a journal holds; played again, it does the same, because a punctuation
// carries its clock value.
type Entry struct {
	// Input is the index of the record's input in the task's sorted inputs; -1 for a punctuation.
	Input int
	// Record is nil for a punctuation.
	Record      *broker.Record
	Punctuation *topology.Punctuation
}

// entryOverhead is what an entry costs beside its bytes.
const entryOverhead = 128

// Bytes is the memory of the entry.
func (e Entry) Bytes() int64 {
	if e.Record == nil {
		return entryOverhead
	}
	return recordBytes(e.Record)
}

func recordBytes(r *broker.Record) int64 {
	n := entryOverhead + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return int64(n)
}

// IsControl reports whether the entry is a control record: it moves the position and nothing else.
func (e Entry) IsControl() bool { return e.Record != nil && e.Record.Attrs.IsControl() }

// isRelease reports whether the entry is a parked record that is tried again.
func (e Entry) isRelease() bool { return e.Record == nil && e.Punctuation.IsRelease() }

// IsRecord reports whether the entry is about a record, one that was parked included, and is no
// firing of a schedule.
func (e Entry) IsRecord() bool { return e.Record != nil || e.isRelease() }

// String names the entry by its place, and quotes nothing of a record.
func (e Entry) String() string {
	if e.isRelease() {
		if topic, partition, offset, tried := e.Punctuation.Tried(); tried {
			return fmt.Sprintf("parked record %s[%d] offset %d", topic, partition, offset)
		}
		return fmt.Sprintf("release of a parked record at %s", e.Punctuation.At)
	}
	if e.Record == nil {
		return fmt.Sprintf("punctuation at %s", e.Punctuation.At)
	}
	return fmt.Sprintf("%s[%d] offset %d", e.Record.Topic, e.Record.Partition, e.Record.Offset)
}

// place tells entries apart: a record by where it is among the task's inputs, a punctuation by
// itself.
type place struct {
	input       int
	offset      int64
	punctuation *topology.Punctuation
}

func (e Entry) place() place {
	if e.Record == nil {
		return place{-1, -1, e.Punctuation}
	}
	return place{e.Input, e.Record.Offset, nil}
}
