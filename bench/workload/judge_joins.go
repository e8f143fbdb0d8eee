package workload

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/onceward/onceward/bench/measure"
)

// meeter judges a join or an aggregation in which a record leads to one output at most. It gets the
// records of a partition in their order, with their timestamps in milliseconds. It returns value
// and timestamp of the output, and false if there is none.
type meeter interface {
	meet(r sidedRecord, ms int64) (value []byte, at int64, leads bool)
}

// orderedSides judges a partition by what its records meet.
type orderedSides struct {
	noState
	meeter
	// newest is the largest timestamp of the partition.
	newest int64
}

// Input implements [Ordered].
func (o *orderedSides) Input(in Record) (out Record, leads bool, err error) {
	r, err := decodeSided(in.Key, in.Value)
	if err != nil {
		return Record{}, false, err
	}
	if o.newest = max(o.newest, in.Timestamp); in.Timestamp < o.newest-mostLateMillis {
		return Record{}, false, fmt.Errorf("a record is %d ms late, and in no workload above %d", o.newest-in.Timestamp, mostLateMillis)
	}
	value, at, leads := o.meet(r, in.Timestamp)
	return Record{Key: in.Key, Value: value, Timestamp: at}, leads, nil
}

// Undo implements [Ordered]. No state is compared, and nothing comes after the input that is taken
// back.
func (*orderedSides) Undo() {}

// Compare implements [Ordered].
func (*orderedSides) Compare(got, want Record) error { return compare(got, want) }

// joinedValue is the output of a join of two records.
func joinedValue(left, right sidedRecord) []byte {
	value := make([]byte, 0, joinedBytes)
	for _, r := range []sidedRecord{left, right} {
		value = binary.BigEndian.AppendUint64(value, r.number)
		value = binary.BigEndian.AppendUint64(value, uint64(r.amount))
	}
	return value
}

// rowMeeter judges stream-table: an event meets the last row of its key.
type rowMeeter map[Account]sidedRecord

func newRowMeeter() meeter { return rowMeeter{} }

func (m rowMeeter) meet(r sidedRecord, ms int64) (value []byte, at int64, leads bool) {
	if r.side == rightSide {
		m[r.key] = r
		return nil, 0, false
	}
	row, there := m[r.key]
	if !there {
		return nil, 0, false
	}
	return joinedValue(r, row), ms, true
}

// pairMeeter judges stream-stream: a record meets the one that has opened its key, if that is near
// enough. Whether it is depends on which side is which.
type pairMeeter map[Account]timedRecord

type timedRecord struct {
	sidedRecord
	ms int64
}

func newPairMeeter() meeter { return pairMeeter{} }

func (m pairMeeter) meet(r sidedRecord, ms int64) (value []byte, at int64, leads bool) {
	first, there := m[r.key]
	if !there {
		m[r.key] = timedRecord{r, ms}
		return nil, 0, false
	}
	left, right := first, timedRecord{r, ms}
	if r.side == leftSide {
		left, right = right, left
	}
	after := time.Duration(right.ms-left.ms) * time.Millisecond
	if after < -pairBefore || after > pairAfter {
		return nil, 0, false
	}
	return joinedValue(left.sidedRecord, right.sidedRecord), max(left.ms, right.ms), true
}

// sessionMeeter judges sessions: a record and the sessions around it become one.
type sessionMeeter struct {
	newest int64
	open   map[Account][]session
}

type session struct{ start, end, count, sum int64 }

func newSessionMeeter() meeter { return &sessionMeeter{open: map[Account][]session{}} }

func (m *sessionMeeter) meet(r sidedRecord, ms int64) (value []byte, at int64, leads bool) {
	m.newest = max(m.newest, ms)
	now := session{start: ms, end: ms, count: 1, sum: r.amount}
	others := m.open[r.key][:0]
	for _, s := range m.open[r.key] {
		switch {
		case s.end >= ms-sessionGapMillis && s.start <= ms+sessionGapMillis:
			now.start, now.end = min(now.start, s.start), max(now.end, s.end)
			now.count, now.sum = now.count+s.count, now.sum+s.sum
		case s.end >= m.newest-sessionGapMillis-mostLateMillis: // no record is late enough to meet the others
			others = append(others, s)
		}
	}
	m.open[r.key] = append(others, now)
	value = make([]byte, 0, sessionBytes)
	for _, part := range []int64{now.start, now.end, now.count, now.sum} {
		value = binary.BigEndian.AppendUint64(value, uint64(part))
	}
	return value, now.end, true
}

// referenceJudge judges foreign-key. The sides meet behind topics of the application. The last rows
// meet in every run, earlier rows in some runs. So each output has to be of a row and the row that
// it names. The rows of a key get newer from output to output. The last output is that of the last
// rows. Deletes may come between outputs, because a row may be faster than the row that it names.
type referenceJudge struct {
	noState
	// rows are those of both sides, by their numbers.
	rows []namingRow
	// lefts and rights are the numbers of the last rows by their keys.
	lefts, rights map[Account]uint64
	// got are the last outputs.
	got map[Account]joinedRows
}

// namingRow is a row that an output may be of.
type namingRow struct {
	// digest is a hash of side, amount and, for the left side, key; 0 if there is no such row.
	digest uint64
	// right is the key of the right side: the row's own, or the one that it names.
	right Account
}

// joinedRows are the numbers of the rows of an output, the last one that was no delete, and whether
// a delete has come behind it.
type joinedRows struct {
	left, right uint64
	there       bool
}

// rowsMost is far beyond the records of an input. A larger number is of no generator.
const rowsMost = 1 << 28

func newReferenceJudge() Shuffled {
	return &referenceJudge{lefts: map[Account]uint64{}, rights: map[Account]uint64{}, got: map[Account]joinedRows{}}
}

func leftDigest(key Account, amount int64) uint64 {
	return measure.Scatter(measure.Scatter(binary.BigEndian.Uint64(key[:]))+uint64(amount)) | 1
}

func rightDigest(amount int64) uint64 { return measure.Scatter(uint64(amount)) &^ 1 }

// Input implements [Shuffled].
func (j *referenceJudge) Input(in Record) error {
	r, err := decodeSided(in.Key, in.Value)
	if err != nil {
		return err
	}
	if r.number >= rowsMost {
		return fmt.Errorf("a record has the number %d", r.number)
	}
	for uint64(len(j.rows)) <= r.number {
		j.rows = append(j.rows, namingRow{})
	}
	if r.side == leftSide {
		j.rows[r.number] = namingRow{digest: leftDigest(r.key, r.amount), right: r.reference}
		j.lefts[r.key] = r.number
		return nil
	}
	j.rows[r.number] = namingRow{digest: rightDigest(r.amount), right: r.key}
	j.rights[r.key] = r.number
	return nil
}

// Output implements [Shuffled].
func (j *referenceJudge) Output(out Record) error {
	if len(out.Key) != KeyBytes {
		return errKey
	}
	key := Account(out.Key)
	before, again := j.got[key]
	if len(out.Value) == 0 {
		if _, there := j.lefts[key]; !there {
			return errOthers
		}
		before.there = false
		j.got[key] = before
		return nil
	}
	if len(out.Value) != joinedBytes {
		return errLength
	}
	left, right := binary.BigEndian.Uint64(out.Value), binary.BigEndian.Uint64(out.Value[16:])
	leftAmount, rightAmount := int64(binary.BigEndian.Uint64(out.Value[8:])), int64(binary.BigEndian.Uint64(out.Value[24:]))
	switch n := uint64(len(j.rows)); {
	case left >= n || right >= n || j.rows[left].digest != leftDigest(key, leftAmount) || j.rows[right].digest != rightDigest(rightAmount):
		return errOthers
	case j.rows[left].right != j.rows[right].right:
		return errValue
	case again && (left < before.left || left == before.left && right <= before.right):
		return errOrder
	}
	j.got[key] = joinedRows{left, right, true}
	return nil
}

// Done implements [Shuffled].
func (j *referenceJudge) Done() error {
	wrong := 0
	for key, left := range j.lefts {
		right, meets := j.rights[j.rows[left].right]
		if got := j.got[key]; got.there != meets || meets && (got.left != left || got.right != right) {
			wrong++
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%w: the last output of %d keys", errMissing, wrong)
	}
	return nil
}
