package pgsink

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/onceward/onceward/processors/postgres"
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
	return fmt.Sprintf("topic %s, partition %d, offset %d: %s: %s", f.Topic, f.Partition, f.Offset, f.Class, reasonOf(f.Err))
}

// Unwrap returns f.Err.
func (f *Failure) Unwrap() error { return f.Err }

// errFenced: the row of the partition's offset has another generation, or another offset than its owner has moved it to.
var errFenced = errors.New("fenced")

// lostError is an error of Apply on a connection that has ended: the connection is to blame, and not the records.
type lostError struct{ err error }

func (e *lostError) Error() string { return "the connection was lost: " + e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// databaseError is an error of a statement of the sink, and not of Apply.
type databaseError struct {
	op  string
	err error
}

func (e *databaseError) Error() string { return e.op + ": " + e.err.Error() }
func (e *databaseError) Unwrap() error { return e.err }

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

// unavailable says whether the server or the connection is to blame. Of other errors than those of the driver this is only said where the sink
// itself has used the connection: Apply may have connections to other systems.
func unavailable(err error) bool {
	if _, ok := errors.AsType[*lostError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*databaseError](err); ok {
		return postgres.Unavailable(err)
	}
	_, ofServer := errors.AsType[*pgconn.PgError](err)
	return ofServer && postgres.Unavailable(err)
}

// contended says whether other transactions are to blame: a serialization failure or a deadlock.
func contended(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && strings.HasPrefix(e.Code, "40")
}

// reasonOf returns what can be said of an error without a risk that it quotes a record.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		var b strings.Builder
		fmt.Fprintf(&b, "SQLSTATE %s", e.Code)
		switch e.Code {
		case "42P01", "42703", "42883", "42501", "3D000", "3F000", "28000", "28P01", "57P01", "57P03", "53300", "25P03":
			fmt.Fprintf(&b, ": %s", e.Message) // about names and the server, never about a value
		}
		if e.ConstraintName != "" {
			fmt.Fprintf(&b, ", constraint %s of table %s", e.ConstraintName, e.TableName)
		}
		return b.String()
	}
	if _, ok := errors.AsType[*databaseError](err); ok { // of the driver, about the connection
		return err.Error()
	}
	if _, ok := errors.AsType[*lostError](err); ok {
		return "the connection to the database was lost"
	}
	return (&topology.Failure{Err: err}).Reason()
}

// pause returns how long to wait after the given attempt, which counts from 1. Half of it is random, so that those who met do not meet again.
func pause(attempt int, least, most time.Duration) time.Duration {
	d := least
	for range attempt - 1 {
		if d *= 2; d >= most {
			d = most
			break
		}
	}
	return d/2 + rand.N(d/2+1)
}

// wait waits, and returns false if it was told to stop.
func wait(ctx context.Context, stop <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-stop:
	case <-ctx.Done():
	}
	return false
}
