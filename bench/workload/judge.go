package workload

import (
	"bytes"
	"errors"
	"fmt"
)

// Record is a record of an input or an output. Judges copy the parts that they keep.
type Record struct {
	Key, Value []byte
	// Timestamp is in milliseconds since the epoch.
	Timestamp int64
	// Partition is the one that the record was read from. Sources do not set it.
	Partition int32
}

// Sum is an account in a workload's state. Balance is zero for a workload that only counts.
type Sum struct{ Count, Balance int64 }

// Ordered judges one partition of a workload that keeps the order. It belongs to one goroutine.
type Ordered interface {
	// Input takes the next record of the input and returns its expected output; leads is false for
	// a record without output. The output shares the memory of the input. It fails if the record
	// does not belong to the workload's input.
	Input(in Record) (out Record, leads bool, err error)
	// Undo takes the last input back: it had to lead to an output, and none is there. It is called
	// once at most before the next Input.
	Undo()
	// Compare compares an output with the one that has to be next.
	Compare(got, want Record) error
	// Sums is what the state has to be after the inputs so far, and Events how many events there
	// were, duplicates left out; both are empty where there is no such state. Sums must not be
	// changed.
	Sums() map[Account]Sum
	Events() int64
}

// Shuffled judges the whole output of a workload that shuffles. It belongs to one goroutine.
type Shuffled interface {
	// Input takes a record of the input. All inputs come before the outputs. Those of a partition
	// come in their order.
	Input(in Record) error
	// Output takes an output. The outputs of a partition come in their order.
	Output(out Record) error
	// Done says whether every output was there. Together with what Output has compared, the outputs
	// are right then.
	Done() error
	// Sums is what the state has to be after all inputs, Events as for Ordered.
	Sums() map[Account]Sum
	Events() int64
}

// NewOrdered returns the judge of a partition, for a workload that does not shuffle.
func (w Workload) NewOrdered() Ordered {
	if w.sided != nil {
		return &orderedSides{meeter: w.sided.meets()}
	}
	if w.query != nil {
		return &orderedBids{w.query}
	}
	return &orderedEvents{output: *w.output, sums: map[Account]Sum{}, seen: map[[IDBytes]byte]struct{}{}}
}

// NewShuffled returns the judge of a workload that shuffles.
func (w Workload) NewShuffled() Shuffled {
	if w.sided != nil {
		return w.sided.shuffled()
	}
	if w.query != nil {
		return w.query.shuffled()
	}
	return &shuffledEvents{output: *w.output, seen: map[[IDBytes]byte]struct{}{}, want: map[Account]keyTotal{}, got: map[Account]keyTotal{}}
}

// The possible errors of an output.
var (
	errKey       = errors.New("the key is not the one that has to be next")
	errValue     = errors.New("the value is not the one that has to be next")
	errTimestamp = errors.New("the timestamp is not that of the input")
	errLength    = errors.New("the value has another length than an output")
	errCount     = errors.New("the count is not the one after that of the output before")
	errMissing   = errors.New("outputs are missing")
	errTooMany   = errors.New("there are more outputs than inputs")
	errOthers    = errors.New("the outputs are those of other records")
	errOrder     = errors.New("the rows of the output are not newer than those of the output before")
)

// compare compares an output with the one that has to be next.
func compare(got, want Record) error {
	switch {
	case !bytes.Equal(got.Key, want.Key):
		return errKey
	case !bytes.Equal(got.Value, want.Value):
		return errValue
	case got.Timestamp != want.Timestamp:
		return errTimestamp
	}
	return nil
}

// lacking is the error of so many outputs that did not come, nil for none.
func lacking(outputs int64) error {
	if outputs > 0 {
		return fmt.Errorf("%w: %d", errMissing, outputs)
	}
	return nil
}
