package pgrequests

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/postgres/internal/work"
)

// Entry is what is stored of a request.
type Entry struct {
	// Status is [StatusUnknown] of an attempt with external effects whose lock has expired.
	Status Status
	// Claim is that of the latest attempt. An operator ends a STARTED or UNKNOWN request with it.
	Claim Claim
	// External is that of the attempt, and Holder the process that has started it.
	External bool
	Holder   string
	// CreatedAt is the start of the first attempt, StartedAt that of the latest. The others are
	// zero where they do not apply.
	CreatedAt   time.Time
	StartedAt   time.Time
	LockedUntil time.Time
	EndedAt     time.Time
	// Response is the answer, empty where none is stored.
	Response Response
}

const findRequest = `
SELECT CASE WHEN status = 'STARTED' AND external AND locked_until <= clock_timestamp() THEN 'UNKNOWN' ELSE status END,
	attempt, external, holder, created_at, started_at, locked_until, ended_at,
	response_status, response_header_names, response_header_values, response_body
FROM onceward.requests WHERE ` + ofScope

// Find returns what a committed transaction has stored of a request, and whether there is anything.
// It is for operators, and for clients that ask what became of a request. To decide by it and then
// to start is the gap through which a second copy slips.
func (s *Store) Find(ctx context.Context, scope Scope) (e Entry, found bool, err error) {
	if err := scope.check(); err != nil {
		return Entry{}, false, s.failed("find", err)
	}
	e.Claim.Scope = scope
	var locked, ended *time.Time
	var code *int
	var names, values [][]byte
	var body []byte
	err = s.pool.QueryRow(ctx, findRequest, s.args(scope)...).Scan(
		&e.Status, &e.Claim.Attempt, &e.External, &e.Holder, &e.CreatedAt, &e.StartedAt, &locked, &ended, &code, &names, &values, &body)
	if errors.Is(err, pgx.ErrNoRows) {
		return Entry{}, false, nil
	}
	if err != nil {
		return Entry{}, false, s.failed("find", work.Failed("read a request", err))
	}
	e.LockedUntil, e.EndedAt = timeOf(locked), timeOf(ended)
	e.Response = responseOf(code, names, values, body)
	return e, true, nil
}
