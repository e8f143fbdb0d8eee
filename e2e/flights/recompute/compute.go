package recompute

// Expected is what the pipeline has to make of its source topic. Indexes are partitions. It is read-only.
type Expected struct {
	// Latest and Stale are the flights with a known plane, in the order of their partition: those that were
	// the latest of their plane when they came, and the others.
	Latest [][]*Row
	Stale  [][]Stale
	// Dead are the malformed records, in the order of their partition.
	Dead [][]*Input
	// Planes are the latest flights of all planes, by tail number.
	Planes map[string]*Row
	// Carriers are the sums of all carriers.
	Carriers map[string]Totals
	// Contributions are the rows by [Row.Contribution].
	Contributions map[string]*Row

	partitions int32
	// sources says where the row of each line comes from.
	sources map[int]source
}

// Stale is a flight that came after a later one of its plane.
type Stale struct {
	Row *Row
	// Latest is the plane's latest flight at that time.
	Latest *Row
}

type source struct {
	input *Input
	row   *Row
}

// Totals are the sums of a carrier.
type Totals struct {
	// Flights counts all rows.
	Flights int64
	// Minutes is the sum of the arrival delays of the flights that arrived.
	Minutes int64
	// Cancelled and Diverted count the flights that have no arrival delay.
	Cancelled, Diverted int64
}

func (t Totals) plus(r *Row) Totals {
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

// version orders the flights of a plane: by the scheduled departure, and by the line where two are scheduled
// for one minute.
func (r *Row) version() int64 { return r.Scheduled*1_000_000 + int64(r.Line) }

// Compute computes what the inputs lead to, when all topics have the given number of partitions.
func Compute(inputs []Input, partitions int32) *Expected {
	e := &Expected{
		Latest:        make([][]*Row, partitions),
		Stale:         make([][]Stale, partitions),
		Dead:          make([][]*Input, partitions),
		Planes:        map[string]*Row{},
		Carriers:      map[string]Totals{},
		Contributions: map[string]*Row{},
		partitions:    partitions,
		sources:       map[int]source{},
	}
	for i := range inputs {
		in := &inputs[i]
		if in.Malformed != nil {
			e.Dead[in.Partition] = append(e.Dead[in.Partition], in)
			continue
		}
		row := in.Row
		e.sources[row.Line] = source{in, row}
		e.Carriers[row.Carrier] = e.Carriers[row.Carrier].plus(row)
		e.Contributions[row.Contribution()] = row
		if row.Tail == "" {
			continue
		}
		// All flights of a plane are in one partition, so the order of the inputs is the plane's.
		if latest, ok := e.Planes[row.Tail]; ok && row.version() < latest.version() {
			e.Stale[in.Partition] = append(e.Stale[in.Partition], Stale{row, latest})
			continue
		}
		e.Planes[row.Tail] = row
		e.Latest[in.Partition] = append(e.Latest[in.Partition], row)
	}
	return e
}

// count returns the number of all elements.
func count[T any](lists [][]T) int {
	n := 0
	for _, list := range lists {
		n += len(list)
	}
	return n
}
