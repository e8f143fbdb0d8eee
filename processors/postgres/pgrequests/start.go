package pgrequests

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/postgres/internal/work"
	"github.com/onceward/onceward/topology"
)

// Claim is the right to end a request. It is fenced when a later attempt has started. It can be
// stored, for a process that ends the request later.
type Claim struct {
	Scope Scope
	// Attempt counts the starts of the request, from 1.
	Attempt int64
}

// Start is what [Store.StartOrReplay] says of a request.
type Start struct {
	Outcome Outcome
	// Claim ends the request, if it is started.
	Claim Claim
	// Status and Response are what is stored, if it is replayed.
	Status   Status
	Response Response
}

// ofScope are the conditions on a row, for the first six parameters of a statement.
const ofScope = `service = $1 AND tenant = $2 AND client = $3 AND operation = $4 AND resource = $5 AND key = $6`

// insertRequest returns whether no other transaction is starting or ending the request, and whether
// this one has made its row. Each transaction that starts or ends a request has the advisory lock
// of the scope. With ON CONFLICT alone, the insert would wait for its end.
const insertRequest = `
WITH free AS MATERIALIZED (SELECT pg_try_advisory_xact_lock($11) AS ours), made AS (
	INSERT INTO onceward.requests (service, tenant, client, operation, resource, key, request_hash, status, attempt, external, holder, locked_until)
	SELECT $1, $2, $3, $4, $5, $6, $7::bytea, 'STARTED', 1, $8::boolean, $9, clock_timestamp() + $10::interval FROM free WHERE ours
	ON CONFLICT DO NOTHING RETURNING 1)
SELECT ours, EXISTS (SELECT FROM made) FROM free`

const readRequest = `
SELECT request_hash, status, attempt, external, coalesce(locked_until > clock_timestamp(), false), coalesce(expires_at > clock_timestamp(), false),
	response_status, response_header_names, response_header_values, response_body
FROM onceward.requests WHERE ` + ofScope

// takeRequest starts a request once more. It finds no row if Clean has changed it.
const takeRequest = `
UPDATE onceward.requests SET status = 'STARTED', attempt = attempt + 1, external = $9, holder = $10, started_at = now(), ended_at = NULL,
	locked_until = clock_timestamp() + $11::interval, response_status = NULL
WHERE ` + ofScope + ` AND attempt = $7 AND status = $8`

// triesMax bounds how often a start looks again because rows have come or gone between two
// statements.
const triesMax = 10

// StartOrReplay starts a request in the caller's transaction, or says what became of its copies. It
// does not wait for other copies. An error leaves the transaction aborted, unless it is of class
// Validation (topology.ClassOf). That request has no key or no hash, or texts that cannot be
// stored.
func (s *Store) StartOrReplay(ctx context.Context, tx pgx.Tx, r Request) (Start, error) {
	if err := r.check(); err != nil {
		return Start{}, s.failed("start", err)
	}
	start, err := s.start(ctx, tx, &r)
	if err != nil {
		return Start{}, s.failed("start", work.Failed("write a request", err))
	}
	s.outcomes[start.Outcome].Inc()
	return start, nil
}

func (s *Store) start(ctx context.Context, tx pgx.Tx, r *Request) (Start, error) {
	for range triesMax {
		var ours, made bool
		err := tx.QueryRow(ctx, insertRequest, s.args(r.Scope, r.Hash[:], r.External, s.holder, s.lock, s.lockOf(r.Scope))...).Scan(&ours, &made)
		if err != nil || made {
			return Start{Outcome: Started, Claim: Claim{r.Scope, 1}}, err
		}
		k, err := s.read(ctx, tx, r.Scope)
		switch {
		case errors.Is(err, pgx.ErrNoRows) && ours:
			continue // the row was cleaned up between the two statements
		case errors.Is(err, pgx.ErrNoRows):
			return Start{Outcome: InProgress}, nil
		case err != nil:
			return Start{}, err
		}
		outcome := k.outcome(r.Hash)
		switch {
		case outcome == Replayed:
			return Start{Outcome: Replayed, Status: k.status, Response: k.response}, nil
		case outcome != Started:
			return Start{Outcome: outcome}, nil
		case !ours:
			return Start{Outcome: InProgress}, nil
		}
		taken, err := tx.Exec(ctx, takeRequest, s.args(r.Scope, k.attempt, k.status, r.External, s.holder, s.lock)...)
		if err != nil {
			return Start{}, err
		}
		if taken.RowsAffected() == 1 {
			if k.status == StatusStarted {
				s.takenOver.Inc()
			}
			return Start{Outcome: Started, Claim: Claim{r.Scope, k.attempt + 1}}, nil
		}
	}
	return Start{}, topology.Fail(topology.Transient, errors.New("rows have come and gone while the request was started"))
}

// args returns the parameters of a statement on a row.
func (s *Store) args(c Scope, more ...any) []any {
	return append([]any{s.service, c.Tenant, c.Client, c.Operation, c.Resource, c.Key}, more...)
}

// known is the row of a request.
type known struct {
	hash     []byte
	status   Status
	attempt  int64
	external bool
	locked   bool // the lock has not expired
	stored   bool // the answer has not expired
	response Response
}

func (s *Store) read(ctx context.Context, tx pgx.Tx, c Scope) (k known, err error) {
	var status *int
	var names, values [][]byte
	err = tx.QueryRow(ctx, readRequest, s.args(c)...).
		Scan(&k.hash, &k.status, &k.attempt, &k.external, &k.locked, &k.stored, &status, &names, &values, &k.response.Body)
	k.response = responseOf(status, names, values, k.response.Body)
	return k, err
}

// outcome says what a copy of the request is told, if no other transaction is starting it.
func (k *known) outcome(hash [32]byte) Outcome {
	switch {
	case !bytes.Equal(k.hash, hash[:]):
		return Conflict
	case k.status == StatusUnknown:
		return Unknown
	case k.status == StatusFailedRetryable:
		return Started
	case k.status == StatusStarted && k.locked:
		return InProgress
	case k.status == StatusStarted && k.external:
		return Unknown
	case k.status == StatusStarted:
		return Started
	case k.stored:
		return Replayed
	}
	return Expired
}

// responseOf returns an answer as the columns of its row have it.
func responseOf(status *int, names, values [][]byte, body []byte) Response {
	r := Response{Body: body}
	if status != nil {
		r.Status = *status
	}
	for i := range min(len(names), len(values)) {
		if r.Header == nil {
			r.Header = map[string][]string{}
		}
		r.Header[string(names[i])] = append(r.Header[string(names[i])], string(values[i]))
	}
	return r
}

// columns returns the headers as the row has them: one name for each value. They are bytes, because
// a header need not be valid UTF-8.
func (r *Response) columns() (names, values [][]byte) {
	names, values = [][]byte{}, [][]byte{}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		for _, v := range r.Header[name] {
			names, values = append(names, []byte(name)), append(values, []byte(v))
		}
	}
	return names, values
}
