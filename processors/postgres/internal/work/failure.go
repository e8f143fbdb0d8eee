package work

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/processors/postgres"
	"github.com/onceward/onceward/topology"
)

// LostError is an error of a caller's function on a connection that has ended: the connection is to
// blame, and not the work.
type LostError struct{ Err error }

// Error says that the connection was lost.
func (e *LostError) Error() string { return "the connection was lost: " + e.Err.Error() }

// Unwrap returns e.Err.
func (e *LostError) Unwrap() error { return e.Err }

// OfConnection returns err, as a [LostError] if the connection has ended.
func OfConnection(conn *pgx.Conn, err error) error {
	if err != nil && conn.IsClosed() {
		return &LostError{err}
	}
	return err
}

// DatabaseError is an error of a statement of this module.
type DatabaseError struct {
	Op  string
	Err error
}

// Error names the operation.
func (e *DatabaseError) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap returns e.Err.
func (e *DatabaseError) Unwrap() error { return e.Err }

// Failed returns the error of a statement of this module, nil for nil. It says what to do about
// missing tables.
func Failed(op string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && (e.Code == "42P01" || e.Code == "3F000") {
		op += " (postgres.Migrate creates the tables)"
	}
	return &DatabaseError{op, err}
}

// Own says whether a statement of the calling package has failed: its error is a [DatabaseError]
// that has not come from a caller's function, which may use this module too.
func Own(err error) bool {
	if _, ok := errors.AsType[*CallError](err); ok {
		return false
	}
	_, ok := errors.AsType[*DatabaseError](err)
	return ok
}

// Unavailable says whether the server or the connection is to blame. Of other errors than those of
// the driver this is only said where this module itself has used the connection: a caller's
// function may have connections to other systems.
func Unavailable(err error) bool {
	if _, ok := errors.AsType[*LostError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*DatabaseError](err); ok {
		return postgres.Unavailable(err)
	}
	_, ofServer := errors.AsType[*pgconn.PgError](err)
	return ofServer && postgres.Unavailable(err)
}

// Contended says whether other transactions are to blame: a serialization failure or a deadlock.
func Contended(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && strings.HasPrefix(e.Code, "40")
}

// Reason returns what can be said of an error without a risk that it quotes a value, as text that
// can be stored.
func Reason(err error) string { return Text(reasonOf(err)) }

// textBytesMax is the length of a reason that is stored.
const textBytesMax = 1024

// Text returns s as PostgreSQL can store it: zero bytes and invalid UTF-8 are replaced, and a long
// text is cut. A reason that a program gives must not fail the work that it is about.
func Text(s string) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
	if len(s) > textBytesMax {
		s = strings.ToValidUTF8(s[:textBytesMax], "")
	}
	return s
}

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
	if e, ok := errors.AsType[*DatabaseError](err); ok { // of the driver, about the connection; what wraps it may quote a value
		return e.Error()
	}
	if _, ok := errors.AsType[*LostError](err); ok {
		return "the connection to the database was lost"
	}
	for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, ended) {
			return ended.Error()
		}
	}
	return (&topology.Failure{Err: err}).Reason()
}
