package workload

import (
	"bytes"
	"fmt"

	"github.com/onceward/onceward/bench/measure"
)

// orderedBids judges queries without state.
type orderedBids struct{ query *query }

// Input implements [Ordered].
func (o *orderedBids) Input(in Record) (out Record, leads bool, err error) {
	if !isBid(in.Value) {
		return Record{}, false, nil
	}
	b, err := decodeBid(in.Value)
	if err != nil {
		return Record{}, false, err
	}
	b, leads = o.query.each(b)
	out = Record{Key: in.Key, Value: append(b.append(nil), in.Value[bidFieldsBytes:]...), Timestamp: in.Timestamp}
	return out, leads, nil
}

// Undo implements [Ordered]: there is no state.
func (*orderedBids) Undo() {}

// Compare implements [Ordered].
func (*orderedBids) Compare(got, want Record) error { return compare(got, want) }

// Sums implements [Ordered]: there is no state.
func (*orderedBids) Sums() map[Account]Sum { return nil }

// Events implements [Ordered].
func (*orderedBids) Events() int64 { return 0 }

// noState is what judges of queries have to say about state, which is not compared: the last output
// of a key is its row.
type noState struct{}

// Sums implements [Shuffled].
func (noState) Sums() map[Account]Sum { return nil }

// Events implements [Shuffled].
func (noState) Events() int64 { return 0 }

// statisticsJudge judges q17: each output has to be what one more price makes of the output before,
// and the last one what all prices make.
type statisticsJudge struct {
	noState
	want, got map[[16]byte]digested
}

// digested are statistics with the sum of the hashes of all prices.
type digested struct {
	statistics
	digest uint64
}

// with returns them with one more price.
func (d digested) with(price int64) digested {
	return digested{d.statistics.with(price), d.digest + measure.Scatter(uint64(price))}
}

func newStatisticsJudge() Shuffled {
	return &statisticsJudge{want: map[[16]byte]digested{}, got: map[[16]byte]digested{}}
}

// Input implements [Shuffled].
func (j *statisticsJudge) Input(in Record) error {
	if !isBid(in.Value) {
		return nil
	}
	b, err := decodeBid(in.Value)
	if err != nil {
		return err
	}
	key := [16]byte(auctionAndDay(b))
	j.want[key] = j.want[key].with(b.price)
	return nil
}

// Output implements [Shuffled].
func (j *statisticsJudge) Output(out Record) error {
	if len(out.Key) != 16 {
		return errKey
	}
	said, err := statisticsCodec{}.Decode(out.Value)
	if err != nil {
		return err
	}
	key := [16]byte(out.Key)
	before, want := j.got[key], j.want[key]
	now := before.with(said.sum - before.sum)
	switch {
	case said.count != before.count+1:
		return errCount
	case said != now.statistics:
		return errValue
	case now.count > want.count:
		return errTooMany
	case now.count == want.count && now != want:
		return errOthers
	}
	j.got[key] = now
	return nil
}

// Done implements [Shuffled].
func (j *statisticsJudge) Done() error {
	var missing int64
	for key, want := range j.want {
		missing += want.count - j.got[key].count
	}
	return lacking(missing)
}

// lastBidJudge judges q18: how many outputs a key has depends on the order in which bids of several
// partitions arrive, but they get later and later, and the last one is the last bid.
type lastBidJudge struct {
	noState
	// want are the times of the last bids, got those of the last outputs.
	want, got map[[16]byte]int64
	// known are the hashes of all bids.
	known map[uint64]struct{}
}

func newLastBidJudge() Shuffled {
	return &lastBidJudge{want: map[[16]byte]int64{}, got: map[[16]byte]int64{}, known: map[uint64]struct{}{}}
}

// Input implements [Shuffled].
func (j *lastBidJudge) Input(in Record) error {
	if !isBid(in.Value) {
		return nil
	}
	b, err := decodeBid(in.Value)
	if err != nil {
		return err
	}
	key := [16]byte(auctionAndBidder(b))
	j.want[key] = max(j.want[key], b.at)
	j.known[hashOf(in.Value)] = struct{}{}
	return nil
}

// Output implements [Shuffled].
func (j *lastBidJudge) Output(out Record) error {
	b, err := decodeBid(out.Value)
	if err != nil {
		return err
	}
	key := auctionAndBidder(b)
	if !bytes.Equal(key, out.Key) {
		return errKey
	}
	if _, known := j.known[hashOf(out.Value)]; !known {
		return errOthers
	}
	if b.at <= j.got[[16]byte(key)] {
		return errValue
	}
	j.got[[16]byte(key)] = b.at
	return nil
}

// Done implements [Shuffled].
func (j *lastBidJudge) Done() error {
	missing := 0
	for key, want := range j.want {
		if j.got[key] != want {
			missing++
		}
	}
	if missing > 0 {
		return fmt.Errorf("%w: the last bid of %d keys", errMissing, missing)
	}
	return nil
}

// hashOf is the 64-bit FNV-1a.
func hashOf(b []byte) uint64 {
	h := uint64(0xcbf29ce484222325)
	for _, c := range b {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	return h
}
