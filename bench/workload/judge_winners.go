package workload

import (
	"encoding/binary"
	"fmt"
)

// site is the auctions of an input with their bids.
type site struct {
	auctions map[uint64]markedAuction
	// bids are those for an auction, whether they come in time or not.
	bids map[uint64][]markedBid
}

// markedAuction is an auction with the hash of its record's value.
type markedAuction struct {
	auction
	hash uint64
}

func newSite() site {
	return site{auctions: map[uint64]markedAuction{}, bids: map[uint64][]markedBid{}}
}

func (s site) take(in Record) error {
	switch kindOf(in.Value) {
	case nexmarkAuction:
		a, err := decodeAuction(in.Value)
		s.auctions[a.id] = markedAuction{a, hashOf(in.Value)}
		return err
	case nexmarkBid:
		b, err := decodeBid(in.Value)
		s.bids[b.auction] = append(s.bids[b.auction], markedBid{b, hashOf(in.Value)})
		return err
	}
	return nil
}

// find returns a bid for the auction that came in time and is the one asked for.
func (s site) find(a auction, is func(m markedBid) bool) (bid, bool) {
	for _, m := range s.bids[a.id] {
		if m.at >= a.at && m.at <= a.expires && is(m) {
			return m.bid, true
		}
	}
	return bid{}, false
}

// winners are the winning bids by auction.
func (s site) winners() map[uint64]bid {
	won := map[uint64]bid{}
	for id, a := range s.auctions {
		for _, m := range s.bids[id] {
			best, has := won[id]
			if m.at >= a.at && m.at <= a.expires && (!has || byRank(m.bid, best) < 0) {
				won[id] = m.bid
			}
		}
	}
	return won
}

// winningBidsJudge judges q9. Each output is an auction with a bid that came in time and outbids
// that of the output before. The last output of an auction has its winning bid.
type winningBidsJudge struct {
	noState
	site
	got map[uint64]bid
}

func newWinningBidsJudge() Shuffled {
	return &winningBidsJudge{site: newSite(), got: map[uint64]bid{}}
}

// Input implements [Shuffled].
func (j *winningBidsJudge) Input(in Record) error { return j.take(in) }

// Output implements [Shuffled].
func (j *winningBidsJudge) Output(out Record) error {
	if len(out.Key) != 8 {
		return errKey
	}
	if len(out.Value) != auctionBytes+bidBytes {
		return errLength
	}
	a, ok := j.auctions[binary.BigEndian.Uint64(out.Key)]
	if !ok {
		return errKey
	}
	if hashOf(out.Value[:auctionBytes]) != a.hash {
		return errOthers
	}
	hash := hashOf(out.Value[auctionBytes:])
	now, ok := j.find(a.auction, func(m markedBid) bool { return m.hash == hash })
	if !ok {
		return errOthers
	}
	if before, has := j.got[a.id]; has && byRank(now, before) >= 0 {
		return errValue
	}
	j.got[a.id] = now
	return nil
}

// Done implements [Shuffled].
func (j *winningBidsJudge) Done() error {
	missing := 0
	for id, want := range j.winners() {
		if got, ok := j.got[id]; !ok || byRank(got, want) != 0 {
			missing++
		}
	}
	if missing > 0 {
		return fmt.Errorf("%w: the winning bid of %d auctions", errMissing, missing)
	}
	return nil
}

// categoryPricesJudge judges q4. Each output names the auction and the price that have changed the
// mean. The price is that of a bid in time, and higher than the one before it. Number and sum
// follow from both. At the end each auction has its winning price.
type categoryPricesJudge struct {
	noState
	site
	// got are the last outputs by category, last the last prices by auction.
	got  map[uint64]categoryMean
	last map[uint64]int64
}

// categoryMean is the number of auctions and the sum of their prices.
type categoryMean struct{ auctions, sum int64 }

func newCategoryPricesJudge() Shuffled {
	return &categoryPricesJudge{site: newSite(), got: map[uint64]categoryMean{}, last: map[uint64]int64{}}
}

// Input implements [Shuffled].
func (j *categoryPricesJudge) Input(in Record) error { return j.take(in) }

// Output implements [Shuffled].
func (j *categoryPricesJudge) Output(out Record) error {
	if len(out.Key) != 8 {
		return errKey
	}
	if len(out.Value) != 32 {
		return errLength
	}
	category, field := binary.BigEndian.Uint64(out.Key), func(i int) uint64 { return binary.BigEndian.Uint64(out.Value[8*i:]) }
	said, price := categoryMean{int64(field(0)), int64(field(1))}, int64(field(3))
	a, ok := j.auctions[field(2)]
	if !ok || a.category != category {
		return errKey
	}
	if _, bid := j.find(a.auction, func(m markedBid) bool { return m.price == price }); !bid {
		return errOthers
	}
	before, has := j.last[a.id]
	want := j.got[category]
	want.sum += price - before
	if !has {
		want.auctions++
	}
	if said != want || price <= before {
		return errValue
	}
	j.got[category], j.last[a.id] = want, price
	return nil
}

// Done implements [Shuffled].
func (j *categoryPricesJudge) Done() error {
	missing := 0
	for id, want := range j.winners() {
		if j.last[id] != want.price {
			missing++
		}
	}
	if missing > 0 {
		return fmt.Errorf("%w: the winning price of %d auctions", errMissing, missing)
	}
	return nil
}
