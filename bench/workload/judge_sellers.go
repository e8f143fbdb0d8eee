package workload

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// rowsJudge judges a query whose result is a set of rows, each of which is one output, in any
// order.
type rowsJudge struct {
	noState
	// take takes a record of the input.
	take func(in Record) error
	// rows returns the rows by their keys, after all inputs.
	rows func() map[[8]byte][]byte
	// want is what rows has returned, nil before.
	want map[[8]byte][]byte
	got  map[[8]byte]struct{}
}

// Input implements [Shuffled].
func (j *rowsJudge) Input(in Record) error { return j.take(in) }

func (j *rowsJudge) settle() {
	if j.want == nil {
		j.want, j.got = j.rows(), map[[8]byte]struct{}{}
	}
}

// Output implements [Shuffled].
func (j *rowsJudge) Output(out Record) error {
	j.settle()
	if len(out.Key) != 8 {
		return errKey
	}
	key := [8]byte(out.Key)
	want, ok := j.want[key]
	if !ok {
		return errKey
	}
	if !bytes.Equal(out.Value, want) {
		return errValue
	}
	if _, again := j.got[key]; again {
		return errTooMany
	}
	j.got[key] = struct{}{}
	return nil
}

// Done implements [Shuffled].
func (j *rowsJudge) Done() error {
	j.settle()
	return lacking(int64(len(j.want) - len(j.got)))
}

// newLocalItemsJudge returns the judge of q3, which looks for the seller of each auction of the
// category.
func newLocalItemsJudge() Shuffled {
	type item struct {
		event  [8]byte
		id     uint64
		seller uint64
	}
	sellers, items := map[uint64][]byte{}, []item(nil)
	return &rowsJudge{
		take: func(in Record) error {
			switch kindOf(in.Value) {
			case nexmarkPerson:
				p, err := decodePerson(in.Value)
				if slices.Contains([]string{"CA", "ID", "OR"}, string(p.state[:])) {
					sellers[p.id] = slices.Concat(p.name[:], p.city[:], p.state[:])
				}
				return err
			case nexmarkAuction:
				a, err := decodeAuction(in.Value)
				if a.category == 10 {
					items = append(items, item{[8]byte(in.Key), a.id, a.seller})
				}
				return err
			}
			return nil
		},
		rows: func() map[[8]byte][]byte {
			rows := map[[8]byte][]byte{}
			for _, i := range items {
				if seller, ok := sellers[i.seller]; ok {
					rows[i.event] = append(binary.BigEndian.AppendUint64(nil, i.id), seller...)
				}
			}
			return rows
		},
	}
}

// newNewSellersJudge returns the judge of q8, which looks for the window of each person among those
// in which the person opened auctions.
func newNewSellersJudge() Shuffled {
	type opening struct {
		seller uint64
		window int64
	}
	persons, openings := []person(nil), map[opening]struct{}{}
	return &rowsJudge{
		take: func(in Record) error {
			switch kindOf(in.Value) {
			case nexmarkPerson:
				p, err := decodePerson(in.Value)
				persons = append(persons, p)
				return err
			case nexmarkAuction:
				a, err := decodeAuction(in.Value)
				openings[opening{a.seller, a.at / 10_000}] = struct{}{}
				return err
			}
			return nil
		},
		rows: func() map[[8]byte][]byte {
			rows := map[[8]byte][]byte{}
			for _, p := range persons {
				if _, ok := openings[opening{p.id, p.at / 10_000}]; ok {
					key := [8]byte(binary.BigEndian.AppendUint64(nil, p.id))
					rows[key] = binary.BigEndian.AppendUint64(slices.Clone(p.name[:]), uint64(p.at/10_000*10_000))
				}
			}
			return rows
		},
	}
}
