package flights

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// checkByCarrier compares the records of the repartition topic, by partition: each row once, in the
// partition of its carrier, and those that come from one source partition in the order they have
// there.
func (e *expected) checkByCarrier(got [][]*kgo.Record) error {
	r := report{subject: "by-carrier"}
	if len(got) != int(e.partitions) {
		r.add("%d partitions, not %d", len(got), e.partitions)
		return r.err()
	}
	seen := map[int]bool{}
	for p, records := range got {
		last := make([]int64, e.partitions) // offset in each source partition
		for i := range last {
			last[i] = -1
		}
		for i, record := range records {
			from, difference := e.byCarrier(int32(p), record)
			if difference != "" {
				r.add("partition %d, record %d: %s", p, i, difference)
				continue
			}
			if seen[from.row.Line] {
				r.add("partition %d, record %d: line %d is there twice", p, i, from.row.Line)
			}
			seen[from.row.Line] = true
			if before := last[from.input.Partition]; from.input.Offset <= before {
				r.add("partition %d, record %d: line %d, of source partition %d, offset %d, comes after offset %d",
					p, i, from.row.Line, from.input.Partition, from.input.Offset, before)
			}
			last[from.input.Partition] = from.input.Offset
		}
	}
	for line := range e.sources {
		if !seen[line] {
			r.add("line %d is missing", line)
		}
	}
	return r.err()
}

// byCarrier compares one record with its row.
func (e *expected) byCarrier(partition int32, record *kgo.Record) (from rowSource, difference string) {
	decoded, err := decodeFlight(record.Value)
	if err != nil {
		return from, err.Error()
	}
	from, ok := e.sources[decoded.Line]
	if !ok {
		return from, fmt.Sprintf("line %d is no row of the input", decoded.Line)
	}
	row := *from.row
	row.Text = ""
	if decoded != row {
		return from, fmt.Sprintf("line %d has the value %+v, not %+v", row.Line, decoded, row)
	}
	if want := partitionOf(row.Carrier, e.partitions); partition != want {
		return from, fmt.Sprintf("line %d belongs to partition %d", row.Line, want)
	}
	return from, envelope(record, &row, row.Carrier)
}
