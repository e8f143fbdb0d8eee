package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"
)

// accountRow and balanceRow are the values of the two main outputs, as the report reads them.
type accountRow struct {
	Version int64 `json:"version"`
}

type balanceRow struct {
	Count  int64 `json:"count"`
	Amount int64 `json:"amount_minor"`
}

// collect counts the figures from the output topics as they are stored.
func (d *drill) collect(ctx context.Context) (figures, int, error) {
	out := figures{balances: map[string]balance{}, versions: map[string]int64{}}
	aborted := map[[2]int64]bool{}
	read := func(topic string, each func(key string, value []byte, headers map[string]string) error) (int, error) {
		contents, err := d.adm.Read(ctx, topic)
		if err != nil {
			return 0, err
		}
		maps.Copy(aborted, contents.AbortedTransactions)
		for _, r := range contents.Records {
			if each == nil {
				continue
			}
			headers := map[string]string{}
			for _, h := range r.Headers {
				headers[h.Key] = string(h.Value)
			}
			if err := each(string(r.Key), r.Value, headers); err != nil {
				return 0, fmt.Errorf("%s[%d] offset %d: %w", topic, r.Partition, r.Offset, err)
			}
		}
		return len(contents.Records), nil
	}
	var err error
	count := func(into *int, topic string, each func(string, []byte, map[string]string) error) {
		if err == nil {
			*into, err = read(topic, each)
		}
	}
	count(&out.applied, accountsTopic, func(key string, value []byte, _ map[string]string) error {
		var row accountRow
		if err := json.Unmarshal(value, &row); err != nil {
			return err
		}
		if row.Version <= out.versions[key] {
			return fmt.Errorf("version %d follows version %d", row.Version, out.versions[key])
		}
		out.versions[key] = row.Version
		return nil
	})
	count(&out.contributions, balancesTopic, func(key string, value []byte, _ map[string]string) error {
		var row balanceRow
		if err := json.Unmarshal(value, &row); err != nil {
			return err
		}
		before := out.balances[key]
		if row.Count != before.count+1 {
			return fmt.Errorf("contribution %d follows contribution %d", row.Count, before.count)
		}
		if row.Amount < before.amount {
			out.reversals++ // captures are positive
		}
		out.balances[key] = balance{row.Count, row.Amount}
		return nil
	})
	count(&out.duplicates, duplicatesTopic, nil)
	count(&out.stale, staleTopic, nil)
	count(&out.gaps, gapsTopic, nil)
	count(&out.recaptured, recapturedTopic, nil)
	count(&out.overcaptured, overTopic, nil)
	count(&out.deadLetters, deadTopic, func(_ string, _ []byte, headers map[string]string) error {
		switch class := headers[classHeader]; class {
		case "poison":
			out.poison++
		case "validation":
			out.invalid++
		case "conflict":
			out.conflicts++
		default:
			return fmt.Errorf("a dead letter of class %q", class)
		}
		return nil
	})
	return out, len(aborted), err
}

// report compares and prints the table.
func (d *drill) report(ctx context.Context, facts []fact, took time.Duration) error {
	got, aborted, err := d.collect(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDiffers, err)
	}
	want := recount(facts)
	t := table{out: d.o.Out}
	t.head()
	t.row("events in", len(facts), got.events())
	t.row("applied", want.applied, got.applied)
	t.row("duplicates suppressed", want.duplicates, got.duplicates)
	t.row("conflicts", want.conflicts, got.conflicts)
	t.row("stale", want.stale, got.stale)
	t.row("gaps", want.gaps, got.gaps)
	t.row("ledger contributions", want.contributions, got.contributions)
	t.row("of them reversals", want.reversals, got.reversals)
	t.row("captured again, counted once", want.recaptured, got.recaptured)
	t.row("captured again, other amount", want.overcaptured, got.overcaptured)
	t.row("dead letters", want.deadLetters, got.deadLetters)
	t.row("of them poison", want.poison, got.poison)
	t.row("of them invalid", want.invalid, got.invalid)
	t.row("accounts", len(want.versions), len(got.versions))
	t.row("accounts at the right version", len(want.versions), same(want.versions, got.versions))
	t.row("balances", len(want.balances), len(got.balances))
	t.row("balances that agree", len(want.balances), same(want.balances, got.balances))
	t.row("sum of all balances", int(sum(want.balances)), int(sum(got.balances)))
	t.foot()
	say(d.o.Out, "transactions aborted: %d; kills with an open transaction: %d, without: %d; a kill in a restore: %t; %.1f s",
		aborted, d.counted, d.wasted, d.restoreKilled, took.Seconds())
	if t.differs {
		return ErrDiffers
	}
	say(d.o.Out, "every figure agrees with the recomputation from the generated events")
	return nil
}

// events is what became of every event, seen from the outputs: each one is in exactly one of these.
func (f figures) events() int {
	return f.deadLetters + f.duplicates + f.contributions + f.recaptured + f.overcaptured
}

func same[V comparable](want, got map[string]V) int {
	n := 0
	for k, v := range want {
		if g, ok := got[k]; ok && g == v {
			n++
		}
	}
	return n
}

func sum(balances map[string]balance) (total int64) {
	for _, b := range balances {
		total += b.amount
	}
	return total
}
