package latency

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/onceward/onceward/bench/workload"
	"github.com/onceward/onceward/txn"
)

// TestSumAt compares the sum that follows from a position with a count of the events.
func TestSumAt(t *testing.T) {
	for _, partitions := range []int32{1, 3, 4} {
		topics := Topics{Partitions: partitions}
		offsets, sums := map[int32]int64{}, map[uint64]workload.Sum{}
		compare := func(account uint64) {
			lane := topics.lane(account)
			if got := topics.sumAt(account, offsets[lane]); got != sums[account] {
				t.Fatalf("of %d partitions: account %d has %+v at offset %d of partition %d, want %+v", partitions, account, got, offsets[lane], lane,
					sums[account])
			}
		}
		for event := range uint64(2*accounts + 123) {
			account := event % accounts
			offsets[topics.lane(event)]++
			s := sums[account]
			sums[account] = workload.Sum{Count: s.Count + 1, Balance: s.Balance + amount(event)}
			compare(account)
			compare((account + 1) % accounts)
			compare(accounts - 1)
		}
	}
}

// TestMeasureQueriesJudges: right answers are counted, and each kind of bad one is noticed.
func TestMeasureQueriesJudges(t *testing.T) {
	plan := QueryPlan{Topics: Topics{In: "in", Partitions: 4}, Asked: "one", Lanes: []int32{1, 2}, Rate: 10_000, Count: 400}
	right := func(q Query) QueryAnswer {
		offset := q.AtLeast + 2 // one record more than before
		return QueryAnswer{Instance: "two", Offset: offset, Sum: plan.Topics.sumAt(q.Account, offset)}
	}
	count := uint64(plan.Count)
	for name, c := range map[string]struct {
		ask  func(q Query) (QueryAnswer, error)
		want string
	}{
		"right": {func(q Query) (QueryAnswer, error) { return right(q), nil }, "400 answers, 0 refused, 0 failed, 0 wrong, 0 local"},
		"of the instance itself": {func(q Query) (QueryAnswer, error) {
			a := right(q)
			a.Instance = "one"
			return a, nil
		}, "400 answers, 0 refused, 0 failed, 0 wrong, 400 local"},
		"another count": {func(q Query) (QueryAnswer, error) {
			a := right(q)
			a.Sum.Count++
			return a, nil
		}, "400 answers, 0 refused, 0 failed, 400 wrong, 0 local"},
		"below the bound": {func(q Query) (QueryAnswer, error) {
			return QueryAnswer{Instance: "two", Offset: -1, Sum: plan.Topics.sumAt(q.Account, -1)}, nil
		}, "400 answers, 0 refused, 0 failed, 400 wrong, 0 local"},
		"refused": {func(Query) (QueryAnswer, error) { return QueryAnswer{}, fmt.Errorf("no: %w", txn.ErrNotServing) },
			"0 answers, 400 refused, 0 failed, 0 wrong, 0 local"},
		"failed": {func(Query) (QueryAnswer, error) { return QueryAnswer{}, errors.New("broken") }, "0 answers, 0 refused, 400 failed, 0 wrong, 0 local"},
	} {
		r, err := MeasureQueries(t.Context(), plan, func(_ context.Context, q Query) (QueryAnswer, error) { return c.ask(q) })
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("%d answers, %d refused, %d failed, %d wrong, %d local", r.Latency.Count, r.Refused, r.Failed, r.Wrong, r.Local)
		if got != c.want || uint64(r.Latency.Count+r.Refused+r.Failed) != count {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestMeasureQueriesEnds: a measurement without a plan is refused, and one whose context ends fails.
func TestMeasureQueriesEnds(t *testing.T) {
	if _, err := MeasureQueries(t.Context(), QueryPlan{}, nil); !errors.Is(err, ErrUnusable) {
		t.Errorf("without a plan: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	plan := QueryPlan{Topics: Topics{Partitions: 1}, Lanes: []int32{0}, Rate: 1, Count: 1 << 40}
	_, err := MeasureQueries(ctx, plan, func(context.Context, Query) (QueryAnswer, error) {
		cancel()
		return QueryAnswer{}, txn.ErrNotServing
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}
