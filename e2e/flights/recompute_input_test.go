package flights

import (
	"fmt"
	"strconv"
)

// malformation is a way in which a record of the source topic can be malformed.
type malformation int

// The kinds. Each is refused by another rule of the pipeline.
const (
	// FewColumns: columns are missing at the end.
	fewColumns malformation = iota
	// DelayNotNumber: the arrival delay is there and is not a number.
	delayNotNumber
	// ScheduledNotMinutes: the scheduled departure is not a number of minutes.
	scheduledNotMinutes
	// NotUTF8: the value is not text at all.
	notUTF8
	// NoCarrier: the carrier is empty.
	noCarrier
	// malformations is the number of kinds.
	malformations
)

// String returns the name of the kind.
func (k malformation) String() string {
	names := [...]string{
		"few columns", "delay not a number", "scheduled not minutes", "not UTF-8", "no carrier",
	}
	return names[k]
}

// fate is how a malformed record dies: which node of the pipeline refuses it, and the class that it
// gives.
func (k malformation) fate() (node, class string) {
	if k == notUTF8 {
		// The codec of the topic refuses it, before any node has seen it.
		return "source", "poison"
	}
	return "parse", "validation"
}

// malformedRecord is a record that the scenario adds to the source topic.
type malformedRecord struct {
	Kind malformation
	// After is the line of the row behind which the record stands. The record has that row's key,
	// timestamp and line header.
	After int
	// Value is the record's value.
	Value []byte
}

// input is a record of the source topic.
type input struct {
	// Partition and Offset say where it is. Keys decide by murmur2, the n-th null key goes to
	// partition n modulo their number; each partition has its records in the order of Inputs, from
	// offset 0 without a gap.
	Partition int32
	Offset    int64
	// Key is nil, a null, where the plane is not known.
	Key   []byte
	Value []byte
	// Timestamp is in milliseconds since the epoch.
	Timestamp int64
	// dataRow is the row in the record, or that behind which a malformed one stands.
	Row *dataRow
	// malformedRecord is nil for a row.
	Malformed *malformedRecord
}

// lineHeader is the key of the one header of each input: the line of its Row in decimal digits. The
// pipeline does not know it and has to carry it on to whatever it makes of the record.
const lineHeader = "line"

// inputsOfRows returns the records of the source topic in the order in which they are to be
// produced: the rows, each followed by the malformed records that stand behind it.
func inputsOfRows(rows []dataRow, malformed []malformedRecord, partitions int32) ([]input, error) {
	behind := map[int][]*malformedRecord{}
	for i := range malformed {
		behind[malformed[i].After] = append(behind[malformed[i].After], &malformed[i])
	}
	inputs := make([]input, 0, len(rows)+len(malformed))
	next := make([]int64, partitions)
	nulls := int32(0)
	add := func(row *dataRow, value []byte, m *malformedRecord) {
		in := input{Value: value, Timestamp: row.Timestamp(), Row: row, Malformed: m}
		if row.Tail == "" {
			in.Partition = nulls % partitions
			nulls++
		} else {
			in.Key = []byte(row.Tail)
			in.Partition = partitionOf(row.Tail, partitions)
		}
		in.Offset = next[in.Partition]
		next[in.Partition]++
		inputs = append(inputs, in)
	}
	for i := range rows {
		row := &rows[i]
		add(row, []byte(strconv.Itoa(row.Line)+","+row.Text), nil)
		for _, m := range behind[row.Line] {
			add(row, m.Value, m)
		}
		delete(behind, row.Line)
	}
	for line := range behind {
		return nil, fmt.Errorf("recompute: a malformed record stands behind line %d, which is no row", line)
	}
	return inputs, nil
}
