package check

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"
)

// Event is one line of a history. Exactly one field beside At is set.
type Event struct {
	// At is the time in milliseconds since the history began.
	At       int64     `json:"at"`
	Sent     *Sent     `json:"sent,omitempty"`
	Read     *Records  `json:"read,omitempty"`
	Marker   *Marker   `json:"marker,omitempty"`
	Position *Position `json:"position,omitempty"`
	State    *State    `json:"state,omitempty"`
	Log      *Sample   `json:"log,omitempty"`
	Fault    *Fault    `json:"fault,omitempty"`
	Quiesced *struct{} `json:"quiesced,omitempty"`
}

// Outcome is how a produce request ended.
type Outcome string

// The outcomes. Unknown may be either.
const (
	OK      Outcome = "ok"
	Fail    Outcome = "fail"
	Unknown Outcome = "unknown"
)

// Sent is a batch of inputs with consecutive ids. The slices have one entry for each, or are empty
// where all entries are zero.
type Sent struct {
	First   uint32  `json:"first"`
	Outcome Outcome `json:"outcome"`
	// Message is the id of the first delivery of the same message: the input's own id unless it is
	// a repeated delivery.
	Message []uint32 `json:"m"`
	// Key is the record's key, Other the one that it is repartitioned by, both as small integers.
	Key   []uint32 `json:"k"`
	Other []uint32 `json:"x"`
	// Amount is what the input contributes.
	Amount []int64 `json:"v"`
	// Poison are the ids of inputs that have to end as dead letters.
	Poison []uint32 `json:"poison,omitempty"`
}

// Txn names a transaction.
type Txn struct {
	Producer int64 `json:"pid"`
	Epoch    int16 `json:"ep"`
}

// NoTxn is the name for records that were written outside of any transaction.
var NoTxn = Txn{Producer: -1, Epoch: -1}

// LogReader is the name of the reader whose events are the log.
const LogReader = "log"

// Records are what a reader got from a partition, all of one transaction, in the order of their
// offsets.
type Records struct {
	Reader    string `json:"by"`
	Topic     string `json:"t"`
	Partition int32  `json:"p"`
	Txn
	Offsets []int64 `json:"o"`
	// IDs are the inputs that the records come from; for a changelog they are empty.
	IDs []uint32 `json:"id,omitempty"`
	// Counts and Sums are the running totals that the records carry, where the topic has them.
	Counts []int64 `json:"c,omitempty"`
	Sums   []int64 `json:"s,omitempty"`
	// Keys and Values are hashes, of records of a changelog only. The hash of a tombstone's value
	// is 0, and no other value's is.
	Keys   []uint64 `json:"kh,omitempty"`
	Values []uint64 `json:"vh,omitempty"`
}

// Marker is the end of a transaction in a partition: it decides about everything that the producer
// wrote there since its last marker.
type Marker struct {
	Topic     string `json:"t"`
	Partition int32  `json:"p"`
	Offset    int64  `json:"o"`
	Producer  int64  `json:"pid"`
	Commit    bool   `json:"commit"`
}

// Position is an input position in __consumer_offsets. It counts once its marker commits it. Of two
// that are committed the one with the higher offset there counts, whatever the order of their
// markers.
type Position struct {
	// Log is the partition of __consumer_offsets, Offset that of the record there.
	Log       int32  `json:"log"`
	Offset    int64  `json:"o"`
	Topic     string `json:"t"`
	Partition int32  `json:"p"`
	// Next is the offset of the first record that is not processed.
	Next int64 `json:"next"`
	Txn
}

// OffsetsTopic is where positions are.
const OffsetsTopic = "__consumer_offsets"

// State is the content of one partition of a store.
type State struct {
	Store     string `json:"store"`
	Partition int32  `json:"p"`
	// Source says where it comes from, such as "after kill".
	Source string `json:"source"`
	// Next is the position in the store's input topic, Applied the one in its changelog.
	Next    int64 `json:"next"`
	Applied int64 `json:"applied"`
	// Rows and Digest are the number of entries and the XOR of [HashEntry] of all of them. With
	// [NoRows] they are not known, and the state is only compared with the inputs.
	Rows   int64  `json:"rows"`
	Digest uint64 `json:"digest"`
	// Totals are the rows of a store of totals; IDs the XOR of [HashID] of the messages in a store
	// of ids.
	Totals []Total `json:"totals,omitempty"`
	IDs    uint64  `json:"ids,omitempty"`
}

// NoRows says that the bytes of a state are not known.
const NoRows = -1

// Total is a row of a store of totals.
type Total struct {
	Key   uint32 `json:"k"`
	Count int64  `json:"c"`
	Sum   int64  `json:"s"`
}

// Sample is what a partition's log was like at a moment.
type Sample struct {
	Topic     string `json:"t"`
	Partition int32  `json:"p"`
	Stable    int64  `json:"lso"`
	End       int64  `json:"hw"`
}

// Fault is something that was done to the application or the broker.
type Fault struct {
	What string `json:"what"`
	Who  string `json:"who"`
}

// Writer writes a history. It may be used from any goroutine.
type Writer struct {
	mu  sync.Mutex
	out *bufio.Writer
	err error
}

// NewWriter returns a writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{out: bufio.NewWriterSize(w, 1<<20)} }

// Write appends an event. An error is kept and returned by every further call and by Flush.
func (w *Writer) Write(e Event) error {
	line, err := json.Marshal(e)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	if w.err == nil {
		_, w.err = w.out.Write(append(line, '\n'))
	}
	return w.err
}

// Flush hands everything to the underlying writer.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = w.out.Flush()
	}
	return w.err
}

// Read yields the events of a history. An error is the last thing that it yields; it names the
// line.
func Read(r io.Reader) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		in := bufio.NewReaderSize(r, 1<<20)
		for line := 1; ; line++ {
			text, err := in.ReadBytes('\n')
			if errors.Is(err, io.EOF) && len(bytes.TrimSpace(text)) == 0 {
				return
			}
			var e Event
			if err == nil || errors.Is(err, io.EOF) {
				err = json.Unmarshal(text, &e)
			}
			if err != nil {
				yield(Event{}, fmt.Errorf("history, line %d: %w", line, err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// ReadFile is [Read] for a file, which it opens when the ranging starts.
func ReadFile(path string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer f.Close() // it was only read
		Read(f)(yield)
	}
}
