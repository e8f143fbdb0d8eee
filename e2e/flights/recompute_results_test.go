package flights

// expected is what the pipeline has to make of its source topic. Indexes are partitions. It is
// read-only.
type expected struct {
	// Latest and Stale are the flights with a known plane, in the order of their partition: those
	// that were the latest of their plane when they came, and the others.
	Latest [][]*dataRow
	Stale  [][]staleRow
	// Dead are the malformed records, in the order of their partition.
	Dead [][]*input
	// Planes are the latest flights of all planes, by tail number.
	Planes map[string]*dataRow
	// Carriers are the sums of all carriers.
	Carriers map[string]carrierTotals
	// Contributions are the rows by [dataRow.Contribution].
	Contributions map[string]*dataRow

	partitions int32
	// sources says where the row of each line comes from.
	sources map[int]rowSource
}

// staleRow is a flight that came after a later one of its plane.
type staleRow struct {
	Row *dataRow
	// Latest is the plane's latest flight at that time.
	Latest *dataRow
}

type rowSource struct {
	input *input
	row   *dataRow
}

// carrierTotals are the sums of a carrier.
type carrierTotals struct {
	// Flights counts all rows.
	Flights int64
	// Minutes is the sum of the arrival delays of the flights that arrived.
	Minutes int64
	// Cancelled and Diverted count the flights that have no arrival delay.
	Cancelled, Diverted int64
}

func (t carrierTotals) plus(r *dataRow) carrierTotals {
	t.Flights++
	switch {
	case r.Cancelled():
		t.Cancelled++
	case r.Diverted():
		t.Diverted++
	default:
		t.Minutes += int64(r.Delay)
	}
	return t
}

// version orders the flights of a plane: by the scheduled departure, and by the line where two are
// scheduled for one minute.
func (r *dataRow) version() int64 { return r.Scheduled*1_000_000 + int64(r.Line) }

// recompute computes what the inputs lead to, when all topics have the given number of partitions.
func recompute(inputs []input, partitions int32) *expected {
	e := &expected{
		Latest:        make([][]*dataRow, partitions),
		Stale:         make([][]staleRow, partitions),
		Dead:          make([][]*input, partitions),
		Planes:        map[string]*dataRow{},
		Carriers:      map[string]carrierTotals{},
		Contributions: map[string]*dataRow{},
		partitions:    partitions,
		sources:       map[int]rowSource{},
	}
	for i := range inputs {
		in := &inputs[i]
		if in.Malformed != nil {
			e.Dead[in.Partition] = append(e.Dead[in.Partition], in)
			continue
		}
		row := in.Row
		e.sources[row.Line] = rowSource{in, row}
		e.Carriers[row.Carrier] = e.Carriers[row.Carrier].plus(row)
		e.Contributions[row.Contribution()] = row
		if row.Tail == "" {
			continue
		}
		// All flights of a plane are in one partition, so the order of the inputs is the plane's.
		if latest, ok := e.Planes[row.Tail]; ok && row.version() < latest.version() {
			e.Stale[in.Partition] = append(e.Stale[in.Partition], staleRow{row, latest})
			continue
		}
		e.Planes[row.Tail] = row
		e.Latest[in.Partition] = append(e.Latest[in.Partition], row)
	}
	return e
}

// countAll returns the number of all elements.
func countAll[T any](lists [][]T) int {
	n := 0
	for _, list := range lists {
		n += len(list)
	}
	return n
}
