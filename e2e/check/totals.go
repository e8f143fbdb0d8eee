package check

import "fmt"

// totals judges running totals: each one is the one before it in the log plus the contribution of
// its own input.
type totals struct {
	*judge
	sums map[totalKey]Total
}

type totalKey struct {
	output int
	group  uint32
}

func newTotals(j *judge) *totals { return &totals{judge: j, sums: map[totalKey]Total{}} }

func (t *totals) see(e *Event) {
	if e.Read == nil || e.Read.Reader != LogReader {
		return
	}
	r := e.Read
	i, ok := t.outputs[r.Topic]
	if !ok || !t.spec.Outputs[i].Totals {
		return
	}
	for n, id := range r.IDs {
		if !t.known(id) || !t.committed(r, n) {
			continue
		}
		key := totalKey{i, t.group(t.spec.Outputs[i].By, id)}
		want := t.sums[key]
		want.Count++
		want.Sum += t.inputs[id].amount
		got := Total{Count: r.Counts[n], Sum: r.Sums[n]}
		if got != want {
			t.found(Anomaly{Kind: Ledger, Topic: r.Topic, Partition: r.Partition, Offset: r.Offsets[n], ID: id,
				Detail: fmt.Sprintf("the total of group %d is %d in %d contributions, and should be %d in %d",
					key.group, got.Sum, got.Count, want.Sum, want.Count)})
		}
		t.sums[key] = got // one fault is one finding
	}
}

func (t *totals) end() {}
