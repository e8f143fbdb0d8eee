package latency

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/bench/workload"
	"github.com/onceward/onceward/txn"
)

// QueryPlan is a measurement of queries. Each asks for the balance of an account.
type QueryPlan struct {
	Topics Topics
	// Asked is the instance that is asked.
	Asked string
	// Lanes are the partitions that are asked for, in turn.
	Lanes []int32
	// Rate is queries per second, and Count how many there are. As with events, each has a time at
	// which it is due, and none waits for the answer of another one.
	Rate, Count int
}

// Query is one question. The answer has to contain the record at offset AtLeast of the lane's
// input; below 0 any answer is good.
type Query struct {
	Lane    int32
	Account uint64
	AtLeast int64
}

// QueryAnswer says whose state answered, up to which offset of the input it was, and what the account had.
type QueryAnswer struct {
	Instance string
	Offset   int64
	Sum      workload.Sum
}

// Ask asks one question and returns when the answer is there and nothing is left open. An error
// that wraps txn.ErrNotServing is a refusal.
type Ask func(ctx context.Context, q Query) (QueryAnswer, error)

// QueryResult is what a measurement of queries has found.
type QueryResult struct {
	// Latency counts from when a query was due, and Call from when it was asked. The difference is
	// what the measurement itself waits for a processor.
	Latency Summary `json:"latency"`
	Call    Summary `json:"call"`
	// Refused queries were not served by any instance, and Failed ones ended with another error, of
	// which Error is the first. They have no latency.
	Refused int    `json:"refused"`
	Failed  int    `json:"failed"`
	Error   string `json:"error,omitempty"`
	// Wrong answers are not those of their position, or below the bound. Local ones came from the
	// instance that was asked.
	Wrong int `json:"wrong"`
	Local int `json:"local"`
}

// String is the result in a line for people.
func (r QueryResult) String() string {
	s := fmt.Sprintf("p50 %.2f  p99 %.2f  max %.2f ms of %d; from the call p50 %.2f  p99 %.2f  max %.2f ms; %d refused, %d failed, %d wrong, %d local",
		ms(r.Latency.P50), ms(r.Latency.P99), ms(r.Latency.Max), r.Latency.Count, ms(r.Call.P50), ms(r.Call.P99), ms(r.Call.Max),
		r.Refused, r.Failed, r.Wrong, r.Local)
	if r.Error != "" {
		s += ": " + r.Error
	}
	return s
}

// queriesMax bounds the queries at work. The next one is late then, which its latency contains.
const queriesMax = 64

// queryRun is a measurement at work.
type queryRun struct {
	plan QueryPlan
	ask  Ask

	mu            sync.Mutex
	result        QueryResult
	latency, call []time.Duration
	// seen are the offsets that answers had, by lane: a later query has to contain the record before.
	seen map[int32]int64
}

// MeasureQueries asks, and compares every answer with the one that follows from its position.
func MeasureQueries(ctx context.Context, plan QueryPlan, ask Ask) (QueryResult, error) {
	if len(plan.Lanes) == 0 || plan.Rate < 1 || plan.Count < 1 {
		return QueryResult{}, fmt.Errorf("%w: %d queries at %d per second of %d partitions", ErrUnusable, plan.Count, plan.Rate, len(plan.Lanes))
	}
	r := &queryRun{plan: plan, ask: ask, seen: map[int32]int64{}}
	schedule := Schedule{Start: time.Now(), Rate: plan.Rate}
	slots := make(chan struct{}, queriesMax)
	var asking sync.WaitGroup
	for n := range uint64(plan.Count) {
		due := schedule.Due(n)
		if wait := time.NewTimer(time.Until(due)); ctx.Err() == nil {
			select {
			case <-wait.C:
			case <-ctx.Done():
			}
			wait.Stop()
		}
		if ctx.Err() != nil {
			break
		}
		slots <- struct{}{}
		asking.Go(func() {
			defer func() { <-slots }()
			r.one(ctx, n, due)
		})
	}
	asking.Wait()
	if ctx.Err() != nil {
		return QueryResult{}, context.Cause(ctx)
	}
	if len(r.latency) > 0 {
		slices.Sort(r.latency)
		slices.Sort(r.call)
		r.result.Latency, r.result.Call = Summarize(r.latency), Summarize(r.call)
	}
	return r.result, nil
}

// one asks one query.
func (r *queryRun) one(ctx context.Context, n uint64, due time.Time) {
	lane := r.plan.Lanes[n%uint64(len(r.plan.Lanes))]
	inLane := r.plan.Topics.accountsOf(lane)
	// A step that has no factor in common with the number of accounts visits all of them.
	q := Query{Lane: lane, Account: uint64(lane) + n*7919%inLane*uint64(r.plan.Topics.Partitions)}
	r.mu.Lock()
	q.AtLeast = r.seen[lane] - 1
	r.mu.Unlock()
	asked := time.Now()
	a, err := r.ask(ctx, q)
	end := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case errors.Is(err, txn.ErrNotServing):
		r.result.Refused++
		return
	case err != nil:
		if r.result.Failed++; r.result.Error == "" {
			r.result.Error = err.Error()
		}
		return
	}
	r.latency, r.call = append(r.latency, end.Sub(due)), append(r.call, end.Sub(asked))
	if a.Offset <= q.AtLeast || a.Sum != r.plan.Topics.sumAt(q.Account, a.Offset) {
		r.result.Wrong++
	}
	if a.Instance == r.plan.Asked {
		r.result.Local++
	}
	r.seen[lane] = max(r.seen[lane], a.Offset)
}

// accountsOf returns how many accounts a lane has.
func (t Topics) accountsOf(lane int32) uint64 {
	return (accounts - uint64(lane) + uint64(t.Partitions) - 1) / uint64(t.Partitions)
}

// sumAt returns what an account has after the records of its lane below an offset. Events go round
// through the accounts, so the offset says how many of them were the account's. Their amounts
// repeat with every round.
func (t Topics) sumAt(account uint64, offset int64) workload.Sum {
	lane := t.lane(account)
	inLane := int64(t.accountsOf(lane))
	count := offset / inLane
	if (int64(account)-int64(lane))/int64(t.Partitions) < offset%inLane {
		count++
	}
	return workload.Sum{Count: count, Balance: count * amount(account)}
}

// AskIn returns what asks an instance or a client by txn.Query.
func AskIn(from txn.Queryable, topics Topics) Ask {
	store := workload.Balances()
	return func(ctx context.Context, q Query) (a QueryAnswer, err error) {
		var options []txn.ReadOption
		if q.AtLeast >= 0 {
			options = append(options, txn.AtLeast(topics.In, q.Lane, q.AtLeast))
		}
		view, err := txn.Query(ctx, from, store, txn.AtPartition(q.Lane), options...)
		if err != nil {
			return a, err
		}
		key := workload.AccountOf(q.Account)
		row, found, err := view.Store().Get(key[:])
		if found {
			a.Sum = workload.Sum{Count: row.Count, Balance: row.Amounts[0]}
		}
		in, _ := view.Positions().Input(topics.In, q.Lane)
		a.Offset, a.Instance = in.Offset, view.Instance()
		return a, errors.Join(err, view.Close())
	}
}

// rowsAnswer is the JSON document of App.QueryHandler, as far as it is looked at.
type rowsAnswer struct {
	Instance string `json:"instance"`
	Position struct {
		Inputs []struct {
			Topic     string `json:"topic"`
			Partition int32  `json:"partition"`
			Offset    int64  `json:"offset"`
		} `json:"inputs"`
	} `json:"position"`
	Rows []struct {
		Value struct {
			Count   int64   `json:"count"`
			Amounts []int64 `json:"amounts"`
		} `json:"value"`
	} `json:"rows"`
}

// AskHTTP returns what asks App.QueryHandler at a URL for JSON documents.
func AskHTTP(client *http.Client, handler string, topics Topics) Ask {
	return func(ctx context.Context, q Query) (a QueryAnswer, err error) {
		key := workload.AccountOf(q.Account)
		v := url.Values{"partition": {strconv.Itoa(int(q.Lane))}, "key": {string(key[:])}}
		if q.AtLeast >= 0 {
			v.Set("at_least", fmt.Sprintf("%s/%d/%d", topics.In, q.Lane, q.AtLeast))
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, handler+"/"+workload.Balances().Name()+"?"+v.Encode(), http.NoBody)
		if err != nil {
			return a, err
		}
		resp, err := client.Do(req)
		if err != nil {
			return a, err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		switch {
		case err != nil:
			return a, err
		case resp.StatusCode == http.StatusServiceUnavailable:
			return a, txn.ErrNotServing
		case resp.StatusCode != http.StatusOK:
			return a, fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(text)))
		}
		var doc rowsAnswer
		if err := json.Unmarshal(text, &doc); err != nil {
			return a, err
		}
		a.Instance = doc.Instance
		for _, in := range doc.Position.Inputs {
			if in.Topic == topics.In && in.Partition == q.Lane {
				a.Offset = in.Offset
			}
		}
		if len(doc.Rows) == 1 && len(doc.Rows[0].Value.Amounts) == 1 {
			a.Sum = workload.Sum{Count: doc.Rows[0].Value.Count, Balance: doc.Rows[0].Value.Amounts[0]}
		}
		return a, nil
	}
}
