package pgsink

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/onceward/onceward/processors/postgres"
	"github.com/onceward/onceward/processors/postgres/internal/work"
	"github.com/onceward/onceward/topology"
)

// Failure is why a sink has stopped: it could not apply a record, and must not pass it.
type Failure struct {
	Topic     string
	Partition int32
	Offset    int64
	Class     topology.Class
	// Err is what Apply or the database has returned. Its text may quote the record; that of the
	// Failure does not.
	Err error
}

// Error names the record, the class and the reason.
func (f *Failure) Error() string {
	return fmt.Sprintf("topic %s, partition %d, offset %d: %s: %s", f.Topic, f.Partition, f.Offset, f.Class, work.Reason(f.Err))
}

// Unwrap returns f.Err.
func (f *Failure) Unwrap() error { return f.Err }

// errFenced: the row of the partition's offset has another generation, or another offset than its
// owner has moved it to.
var errFenced = errors.New("fenced")

// hopeless says whether a statement of the sink fails for a reason that only an operator or the
// program can remove.
func hopeless(err error) bool {
	switch postgres.ClassOf(err) {
	case topology.Transient, topology.Overload:
		return false
	case topology.Config, topology.Corruption, topology.Fatal:
		return true
	default: // a class that a statement of the sink cannot have, or none
		_, answered := errors.AsType[*pgconn.PgError](err)
		return answered || errors.Is(err, puddle.ErrClosedPool)
	}
}

// fault is who is to blame for a failed attempt.
type fault int

const (
	ofRecord     fault = iota
	ofSink             // the sink's own statements
	ofContention       // other transactions
	ofServer           // the server or the connection, as far as it can be known
)

// faultOf says who is to blame. A class that topology.Fail has given comes first, unless it only
// says that another attempt may succeed.
func faultOf(err error) fault {
	if said := topology.ClassOf(err); said != topology.Poison && said != topology.Transient && said != topology.Overload {
		if work.Own(err) {
			return ofSink
		}
		return ofRecord
	}
	switch {
	case work.Contended(err):
		return ofContention
	case work.Own(err):
		return ofSink
	case work.Unavailable(err) && !paused(err):
		return ofServer
	}
	return ofRecord
}

// paused says whether the server has ended a transaction because it was idle or open for too long.
func paused(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "25P03" || e.Code == "25P04")
}

// byApply says whether Apply has made the server or the driver end the connection. ctx is that of
// Apply.
func byApply(ctx context.Context, err error) bool {
	return paused(err) || ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled))
}

// brokerError is an error of a request to Kafka.
type brokerError struct {
	op  string
	err error
}

func (e *brokerError) Error() string { return e.op + ": " + e.err.Error() }
func (e *brokerError) Unwrap() error { return e.err }

// passes says whether a request to Kafka can succeed when it is made again: there was no answer, or
// one that says so.
func passes(err error) bool {
	if _, ok := errors.AsType[*brokerError](err); !ok {
		return false
	}
	answer, ok := errors.AsType[*kerr.Error](err)
	return !ok || answer.Retriable
}
