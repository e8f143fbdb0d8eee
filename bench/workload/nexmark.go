package workload

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// The events of Nexmark, a benchmark of queries over an auction site
// (https://github.com/nexmark/nexmark), in its proportions: of 50 events, 1 is a new person, 3 are
// new auctions, 46 are bids. Half of the bids are for the auction that is hot at the moment, and
// three of four by the bidder who is. Keys say nothing, as those of its source, so queries by key
// have to bring records together first.
//
//	key    the number of the event
//	value  1 byte for the kind, and then, for a bid: auction, bidder, price in cents, time in milliseconds, 8 bytes each, and padding
//
// Persons have 200 bytes, auctions 500, bids 100, as the generator's defaults aim at. Persons and
// auctions are only there to be left out: no query here looks into them.
const (
	nexmarkPerson = iota
	nexmarkAuction
	nexmarkBid

	personsOf50, auctionsOf50 = 1, 3
	personBytes, auctionBytes = 200, 500
	bidBytes, bidFieldsBytes  = 100, 33

	// hotAuctionEvery and hotBidderEvery are how many new ones there are until another one becomes
	// hot.
	hotAuctionEvery, hotBidderEvery = 100, 100
	// activeAuctions and activeBidders are how many of the latest ones take part.
	activeAuctions, activeBidders = 100, 1000
	firstAuction, firstPerson     = 1000, 1000
)

// bid is what the queries look at.
type bid struct {
	auction, bidder uint64
	// price is in cents, at in milliseconds since the epoch.
	price, at int64
}

// auctions is the source of Nexmark's events.
type auctions struct {
	rng  *rand.Rand
	made uint64
}

func newAuctions(in Input) *auctions { return &auctions{rng: rand.New(rand.NewPCG(in.Seed, 1))} }

// Next implements [Source].
func (a *auctions) Next(clock int64) Record {
	n := a.made
	a.made++
	at := clock / int64(time.Millisecond)
	r := Record{Key: binary.BigEndian.AppendUint64(nil, n), Timestamp: at}
	switch of50 := n % 50; {
	case of50 < personsOf50:
		r.Value = a.padded([]byte{nexmarkPerson}, personBytes)
	case of50 < personsOf50+auctionsOf50:
		r.Value = a.padded([]byte{nexmarkAuction}, auctionBytes)
	default:
		r.Value = a.padded(a.bid(n/50, at).append(nil), bidBytes)
	}
	return r
}

// bid makes a bid in the n-th group of 50 events.
func (a *auctions) bid(n uint64, at int64) bid {
	lastAuction, lastPerson := (n+1)*auctionsOf50-1, n*personsOf50
	b := bid{
		auction: firstAuction + lastAuction - a.rng.Uint64N(min(lastAuction+1, activeAuctions)),
		bidder:  firstPerson + lastPerson - a.rng.Uint64N(min(lastPerson+1, activeBidders)),
		price:   int64(math.Round(math.Pow(10, a.rng.Float64()*6) * 100)), at: at,
	}
	if a.rng.Uint64N(2) > 0 {
		b.auction = firstAuction + lastAuction/hotAuctionEvery*hotAuctionEvery
	}
	if a.rng.Uint64N(4) > 0 {
		b.bidder = firstPerson + lastPerson/hotBidderEvery*hotBidderEvery
	}
	return b
}

func (a *auctions) padded(b []byte, size int) []byte {
	for len(b) < size {
		b = binary.LittleEndian.AppendUint64(b, a.rng.Uint64())
	}
	return b[:size]
}

func (b bid) append(dst []byte) []byte {
	dst = append(dst, nexmarkBid)
	for _, field := range []uint64{b.auction, b.bidder, uint64(b.price), uint64(b.at)} {
		dst = binary.BigEndian.AppendUint64(dst, field)
	}
	return dst
}

// isBid reports whether the value is a bid's.
func isBid(value []byte) bool { return len(value) > 0 && value[0] == nexmarkBid }

// decodeBid reads a bid with whatever padding.
func decodeBid(value []byte) (b bid, err error) {
	if len(value) < bidFieldsBytes || !isBid(value) {
		return b, fmt.Errorf("a value of %d bytes is no bid", len(value))
	}
	b.auction, b.bidder = binary.BigEndian.Uint64(value[1:]), binary.BigEndian.Uint64(value[9:])
	b.price, b.at = int64(binary.BigEndian.Uint64(value[17:])), int64(binary.BigEndian.Uint64(value[25:]))
	return b, nil
}
