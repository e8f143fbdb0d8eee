package workload

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// The possible errors of windows.
var (
	errWindow   = errors.New("the window is not one of the result")
	errTimeBack = errors.New("the time of a bid is before that of the bid before it in the partition")
)

// auctionWindow is a window of q5 for one auction.
type auctionWindow struct {
	start   int64
	auction uint64
}

// hotItemsJudge judges q5. Counts go up by one, so there are two steps from an output to the next
// one. An auction joins the hottest ones, or one of them gets one bid more than the others. The
// last output of a window has to be its result.
type hotItemsJudge struct {
	noState
	counts map[auctionWindow]int64
	got    map[int64]hottest
}

// hottest is the result of a window: auctions, ascending, with that many bids.
type hottest struct {
	bids     int64
	auctions []uint64
}

func newHotItemsJudge() Shuffled {
	return &hotItemsJudge{counts: map[auctionWindow]int64{}, got: map[int64]hottest{}}
}

// Input implements [Shuffled].
func (j *hotItemsJudge) Input(in Record) error {
	if !isBid(in.Value) {
		return nil
	}
	b, err := decodeBid(in.Value)
	if err != nil {
		return err
	}
	for start := b.at / 2000 * 2000; start > b.at-10_000 && start >= 0; start -= 2000 {
		j.counts[auctionWindow{start, b.auction}]++
	}
	return nil
}

// Output implements [Shuffled].
func (j *hotItemsJudge) Output(out Record) error {
	if len(out.Key) != 8 {
		return errKey
	}
	if len(out.Value) < 16 || len(out.Value)%8 != 0 {
		return errLength
	}
	start := int64(binary.BigEndian.Uint64(out.Key))
	now := hottest{bids: int64(binary.BigEndian.Uint64(out.Value))}
	for at := 8; at < len(out.Value); at += 8 {
		auction := binary.BigEndian.Uint64(out.Value[at:])
		switch count := j.counts[auctionWindow{start, auction}]; {
		case count == 0:
			return errWindow
		case count < now.bids:
			return errCount
		}
		now.auctions = append(now.auctions, auction)
	}
	if !now.follows(j.got[start]) {
		return errValue
	}
	j.got[start] = now
	return nil
}

// follows reports whether one bid leads from a result to h.
func (h hottest) follows(before hottest) bool {
	if h.bids == before.bids {
		added := slices.DeleteFunc(slices.Clone(h.auctions), func(a uint64) bool { return slices.Contains(before.auctions, a) })
		return slices.IsSorted(h.auctions) && len(added) == 1 && len(h.auctions) == len(before.auctions)+1
	}
	return h.bids == before.bids+1 && len(h.auctions) == 1 && (before.bids == 0 || slices.Contains(before.auctions, h.auctions[0]))
}

// Done implements [Shuffled].
func (j *hotItemsJudge) Done() error {
	want := map[int64]hottest{}
	for of, count := range j.counts {
		h := want[of.start]
		if count > h.bids {
			h = hottest{bids: count}
		}
		if count == h.bids {
			h.auctions = append(h.auctions, of.auction)
		}
		want[of.start] = h
	}
	missing := 0
	for start, h := range want {
		slices.Sort(h.auctions)
		if got := j.got[start]; got.bids != h.bids || !slices.Equal(got.auctions, h.auctions) {
			missing++
		}
	}
	if missing > 0 {
		return fmt.Errorf("%w: the hottest auctions of %d windows", errMissing, missing)
	}
	return nil
}

// highestBidsJudge judges q7. It knows the highest bid of each partition in each window. The time
// of the last bid of a partition says which windows the partition has closed. Each output is the
// highest bid of a partition that has closed the window, and is not lower than the output before.
// It counts one partition more. The last output of a window is the highest of those bids.
type highestBidsJudge struct {
	noState
	last map[int32]int64
	best map[partitionWindow]markedBid
	// want are the bids of closed windows by the beginning of the window, nil before the first
	// output.
	want map[int64][]markedBid
	got  map[int64]partialBid
}

// partialBid is the highest bid of so many partitions.
type partialBid struct {
	partitions int
	bid        bid
}

type partitionWindow struct {
	partition int32
	start     int64
}

// markedBid is a bid with the hash of its record's value.
type markedBid struct {
	bid
	hash uint64
}

func newHighestBidsJudge() Shuffled {
	return &highestBidsJudge{last: map[int32]int64{}, best: map[partitionWindow]markedBid{}, got: map[int64]partialBid{}}
}

// byRank orders bids from the highest one down; see the queries for those of one price.
func byRank(a, b bid) int {
	return cmp.Or(cmp.Compare(b.price, a.price), cmp.Compare(a.at, b.at), cmp.Compare(a.auction, b.auction), cmp.Compare(a.bidder, b.bidder))
}

// Input implements [Shuffled].
func (j *highestBidsJudge) Input(in Record) error {
	if !isBid(in.Value) {
		return nil
	}
	b, err := decodeBid(in.Value)
	if err != nil {
		return err
	}
	if b.at < j.last[in.Partition] {
		return errTimeBack
	}
	j.last[in.Partition] = b.at
	of := partitionWindow{in.Partition, b.at / 10_000 * 10_000}
	if best, ok := j.best[of]; !ok || byRank(b, best.bid) < 0 {
		j.best[of] = markedBid{b, hashOf(in.Value)}
	}
	return nil
}

func (j *highestBidsJudge) settle() {
	if j.want != nil {
		return
	}
	j.want = map[int64][]markedBid{}
	for of, best := range j.best {
		if j.last[of.partition] >= of.start+10_000 {
			j.want[of.start] = append(j.want[of.start], best)
		}
	}
}

// Output implements [Shuffled].
func (j *highestBidsJudge) Output(out Record) error {
	j.settle()
	if len(out.Key) != 8 {
		return errKey
	}
	start := int64(binary.BigEndian.Uint64(out.Key))
	closed, ok := j.want[start]
	if !ok {
		return errWindow
	}
	if len(out.Value) != 8+bidBytes {
		return errLength
	}
	hash := hashOf(out.Value[8:])
	at := slices.IndexFunc(closed, func(m markedBid) bool { return m.hash == hash })
	if at < 0 {
		return errOthers
	}
	before, has := j.got[start]
	now := partialBid{int(binary.BigEndian.Uint64(out.Value)), closed[at].bid}
	switch {
	case now.partitions != before.partitions+1:
		return errCount
	case has && byRank(now.bid, before.bid) > 0:
		return errValue
	}
	j.got[start] = now
	return nil
}

// Done implements [Shuffled].
func (j *highestBidsJudge) Done() error {
	j.settle()
	missing := 0
	for start, closed := range j.want {
		best := slices.MinFunc(closed, func(a, b markedBid) int { return byRank(a.bid, b.bid) })
		if got := j.got[start]; got.partitions != len(closed) || byRank(got.bid, best.bid) != 0 {
			missing++
		}
	}
	if missing > 0 {
		return fmt.Errorf("%w: the highest bid of %d windows", errMissing, missing)
	}
	return nil
}
