package flights

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// balanceValue is a value of carrier-totals.
type balanceValue struct {
	Count        int64   `json:"count"`
	Amounts      []int64 `json:"amounts"`
	Contribution string  `json:"contribution"`
}

// totalsIn returns the sums that stand in the columns of the ledger; ok is false if there are not
// four.
func totalsIn(amounts []int64) (t carrierTotals, ok bool) {
	if len(amounts) != 4 {
		return t, false
	}
	return carrierTotals{Flights: amounts[0], Minutes: amounts[1], Cancelled: amounts[2], Diverted: amounts[3]}, true
}

// checkTotals compares the records of carrier-totals, by partition: each contribution once, and
// each record with the sums of all records before it of the same carrier, and its own.
func (e *expected) checkTotals(got [][]*kgo.Record) error {
	r := report{subject: "carrier-totals"}
	if len(got) != int(e.partitions) {
		r.add("%d partitions, not %d", len(got), e.partitions)
		return r.err()
	}
	seen := map[string]bool{}
	sums := map[string]carrierTotals{}
	for p, records := range got {
		for i, record := range records {
			row, value, difference := e.balance(int32(p), record)
			if difference != "" {
				r.add("partition %d, record %d: %s", p, i, difference)
				continue
			}
			if seen[value.Contribution] {
				r.add("partition %d, record %d: contribution %s is there twice", p, i, value.Contribution)
			}
			seen[value.Contribution] = true
			want := sums[row.Carrier].plus(row)
			found, ok := totalsIn(value.Amounts)
			if !ok || found != want || value.Count != want.Flights {
				r.add("partition %d, record %d: after contribution %s, number %d, the sums are %v; "+
					"the records before it lead to %+v", p, i, value.Contribution, value.Count, value.Amounts, want)
			}
			sums[row.Carrier] = found // so that one wrong record is one difference
		}
	}
	for _, id := range sortedKeys(e.Contributions) {
		if !seen[id] {
			r.add("contribution %s is missing", id)
		}
	}
	checkMap(&r, e.Carriers, sums)
	return r.err()
}

// checkOrder compares the order of carrier-totals with that of by-carrier, which it follows from:
// each partition has one record for each record there, in the same order.
func (e *expected) checkOrder(byCarrier, totals [][]*kgo.Record) error {
	r := report{subject: "order of carrier-totals"}
	sequence(&r, byCarrier, totals, func(_ int32, want, got *kgo.Record) string {
		if from, to := lineOf(want), lineOf(got); from != to {
			return fmt.Sprintf("line %s of by-carrier is followed by line %s", from, to)
		}
		return ""
	})
	return r.err()
}

// checkTwice reports every record of carrier-twice: no contribution is in the file twice.
func (e *expected) checkTwice(got [][]*kgo.Record) error {
	r := report{subject: "carrier-twice"}
	for p, records := range got {
		for i, record := range records {
			r.add("partition %d, record %d: line %s was posted twice", p, i, lineOf(record))
		}
	}
	return r.err()
}

// balance compares one record with the row that it names, but for the sums.
func (e *expected) balance(partition int32, record *kgo.Record) (*dataRow, balanceValue, string) {
	value, err := decodeJSON[balanceValue](record.Value)
	if err != nil {
		return nil, value, err.Error()
	}
	row, ok := e.Contributions[value.Contribution]
	if !ok {
		return nil, value, fmt.Sprintf("contribution %s is that of no row", value.Contribution)
	}
	if want := partitionOf(row.Carrier, e.partitions); partition != want {
		return nil, value, fmt.Sprintf("contribution %s belongs to partition %d", value.Contribution, want)
	}
	return row, value, envelope(record, row, row.Carrier)
}
