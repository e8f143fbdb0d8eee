package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/topology"
)

// ClassOf returns the class of an error that work on a database has returned, zero for nil:
//
//	class        errors
//	its own      those that topology.Fail has given another class than Poison
//	transient    serialization failures, deadlocks, locks and statements that have timed out; a lost connection, a server that
//	             starts, stops or cannot be reached, a read-only standby; a context that has ended
//	overload     too many connections, no memory, no space
//	validation   values that break a constraint or do not fit a type
//	config       missing tables, columns, functions or rights, an unknown database or role, SQL that does not parse
//	corruption   what the server calls corrupted
//	poison       everything else
func ClassOf(err error) topology.Class {
	if c := topology.ClassOf(err); c != topology.Poison {
		return c
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return classOfState(e.Code)
	}
	if Unavailable(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return topology.Transient
	}
	return topology.Poison
}

// Unavailable says whether an error of a database operation is one of the connection or the server,
// and so says nothing of the record that was at work: the same work is worth trying until the
// server is back.
func Unavailable(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return unavailableState(e.Code)
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if errors.Is(err, context.DeadlineExceeded) { // which is a net.Error too
		return false
	}
	_, network := errors.AsType[net.Error](err)
	return network || pgconn.SafeToRetry(err) || errors.Is(err, pgconn.ErrConnClosed) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// unavailableState says whether a SQLSTATE is one of the server or the session, and not of what was
// asked.
func unavailableState(code string) bool {
	switch code {
	case "57P01", "57P02", "57P03", "57P05", // the server stops, has crashed, starts; the session was idle for too long
		"25P03", "25P04", // the transaction was idle, or open, for too long
		"25006": // a standby, which takes no writes
		return true
	}
	return strings.HasPrefix(code, "08") || strings.HasPrefix(code, "53") // connection, resources
}

// classOfState returns the class of a SQLSTATE. Appendix A of PostgreSQL's manual has the codes.
func classOfState(code string) topology.Class {
	switch {
	case len(code) != 5:
		return topology.Poison
	case unavailableState(code) && !strings.HasPrefix(code, "53"):
		return topology.Transient
	}
	switch code {
	case "57014", "55P03": // canceled by a timeout, a lock that was not available
		return topology.Transient
	case "XX001", "XX002":
		return topology.Corruption
	case "3D000", "3F000":
		return topology.Config
	}
	switch code[:2] {
	case "40":
		return topology.Transient
	case "53":
		return topology.Overload
	case "22", "23", "44":
		return topology.Validation
	case "0A", "28", "42":
		return topology.Config
	}
	return topology.Poison
}
