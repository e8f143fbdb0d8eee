package pgsink

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/onceward/onceward/processors/postgres/internal/work"
	"github.com/onceward/onceward/topology"
)

// Failure is why a sink has stopped: it could not apply a record, and must not pass it.
type Failure struct {
	Topic     string
	Partition int32
	Offset    int64
	Class     topology.Class
	// Err is what Apply or the database has returned. Its text may quote the record; that of the Failure does not.
	Err error
}

// Error names the record, the class and the reason.
func (f *Failure) Error() string {
	return fmt.Sprintf("topic %s, partition %d, offset %d: %s: %s", f.Topic, f.Partition, f.Offset, f.Class, work.Reason(f.Err))
}

// Unwrap returns f.Err.
func (f *Failure) Unwrap() error { return f.Err }

// errFenced: the row of the partition's offset has another generation, or another offset than its owner has moved it to.
var errFenced = errors.New("fenced")

// brokerError is an error of a request to Kafka.
type brokerError struct {
	op  string
	err error
}

func (e *brokerError) Error() string { return e.op + ": " + e.err.Error() }
func (e *brokerError) Unwrap() error { return e.err }

// passes says whether a request to Kafka can succeed when it is made again: there was no answer, or one that says so.
func passes(err error) bool {
	if _, ok := errors.AsType[*brokerError](err); !ok {
		return false
	}
	answer, ok := errors.AsType[*kerr.Error](err)
	return !ok || answer.Retriable
}
