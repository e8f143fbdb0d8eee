package flights

// posting is a contribution as the ledger keeps it.
type posting struct {
	Carrier string
	Amounts carrierTotals
	// Timestamp is that of the row's record.
	Timestamp int64
}

// checkPlanes compares the rows of the projection, given as lines by tail number, in the tasks by
// partition.
func (e *expected) checkPlanes(got []map[string]int) error {
	r := report{subject: "rows of the projection"}
	want := make(map[string]int, len(e.Planes))
	for tail, row := range e.Planes {
		want[tail] = row.Line
	}
	checkTasks(&r, e.partitions, want, got, func(tail string, _ int) string { return tail })
	return r.err()
}

// checkSums compares the balances of the ledger by carrier, in the tasks by partition.
func (e *expected) checkSums(got []map[string]carrierTotals) error {
	r := report{subject: "balances of the ledger"}
	checkTasks(&r, e.partitions, e.Carriers, got, func(carrier string, _ carrierTotals) string { return carrier })
	return r.err()
}

// checkContributions compares the contributions of the ledger by id, in the tasks by partition.
func (e *expected) checkContributions(got []map[string]posting) error {
	r := report{subject: "contributions of the ledger"}
	want := make(map[string]posting, len(e.Contributions))
	for id, row := range e.Contributions {
		want[id] = posting{row.Carrier, carrierTotals{}.plus(row), row.Timestamp()}
	}
	checkTasks(&r, e.partitions, want, got, func(_ string, p posting) string { return p.Carrier })
	return r.err()
}

// checkTasks compares the union of what the tasks have, and that each has only what belongs to its
// partition. The function partitionKey returns the record key that decides about it.
func checkTasks[V comparable](
	r *report, partitions int32, want map[string]V, got []map[string]V,
	partitionKey func(key string, v V) string,
) {
	if len(got) != int(partitions) {
		r.add("%d tasks, not %d", len(got), partitions)
		return
	}
	union := map[string]V{}
	for p, rows := range got {
		for _, key := range sortedKeys(rows) {
			if home := partitionOf(partitionKey(key, rows[key]), partitions); home != int32(p) {
				r.add("%s is in task %d and belongs to task %d", key, p, home)
			}
			union[key] = rows[key]
		}
	}
	checkMap(r, want, union)
}
