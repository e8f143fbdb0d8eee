package workload

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// The events are those of Nexmark, a benchmark of queries over an auction site
// (https://github.com/nexmark/nexmark), in its proportions. Of 50 events, 1 is a new person, 3 are
// new auctions, 46 are bids. Half of the bids are for the auction that is hot at the moment. Three
// of four bids come from the bidder who is hot, and three of four auctions from the seller who is.
// Keys say nothing, as in the original, so queries by key have to bring records together first.
//
//	key    the number of the event
//	value  1 byte for the kind, then its fields, then padding
//
//	kind     bytes  fields, 8 bytes each if not stated
//	person   200    id, time, name (16), city (16), state (2)
//	auction  500    id, seller, category, initial bid, reserve, time, expiry
//	bid      100    auction, bidder, price, time
//
// Prices are in cents and times in milliseconds. The sizes are those that the generator's defaults
// aim at. The padding takes the place of the text that no query looks into. That is mail address
// and credit card of a person, and name and description of an auction.
//
// Two things differ from the original. The hot bidder and the hot seller are the same person. All
// bids are for auctions that exist and from persons that exist.
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
	// hotSellerEvery is as hotBidderEvery.
	hotSellerEvery = 100
	// sellerLead is how many sellers have an auction before they are persons.
	sellerLead = 10
	// activeEvents is the number of events in which activeAuctions begin.
	activeEvents = activeAuctions * 50 / auctionsOf50
)

// bid is what the queries look at.
type bid struct {
	auction, bidder uint64
	// price is in cents, at in milliseconds since the epoch.
	price, at int64
}

// auctions is the source of Nexmark's events.
type auctions struct {
	// rng makes bids and padding. fields makes the fields of persons and auctions, so that they
	// do not change the bids.
	rng, fields *rand.Rand
	made        uint64
	// began is the clock of the first event.
	began int64
}

func newAuctions(in Input) *auctions {
	return &auctions{rng: rand.New(rand.NewPCG(in.Seed, 1)), fields: rand.New(rand.NewPCG(in.Seed, 2))}
}

// Next implements [Source].
func (a *auctions) Next(clock int64) Record {
	n := a.made
	a.made++
	if n == 0 {
		a.began = clock
	}
	at := clock / int64(time.Millisecond)
	r := Record{Key: binary.BigEndian.AppendUint64(nil, n), Timestamp: at}
	switch of50 := n % 50; {
	case of50 < personsOf50:
		r.Value = a.filled(a.person(n/50, at).append(nil), personBytes)
	case of50 < personsOf50+auctionsOf50:
		r.Value = a.filled(a.auction(n/50, of50-personsOf50, at, a.auctionLength(clock)).append(nil), auctionBytes)
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
		price:   price(a.rng), at: at,
	}
	if a.rng.Uint64N(2) > 0 {
		b.auction = firstAuction + lastAuction/hotAuctionEvery*hotAuctionEvery
	}
	if a.rng.Uint64N(4) > 0 {
		b.bidder = firstPerson + lastPerson/hotBidderEvery*hotBidderEvery
	}
	return b
}

// price draws a price in cents, from 100 to 100,000,000. Each power of ten is as frequent as the
// others.
func price(rng *rand.Rand) int64 { return int64(math.Round(math.Pow(10, rng.Float64()*6) * 100)) }

// filled returns a value of that size with the fields at its beginning. It draws as much padding as
// for a value with a kind and no fields.
func (a *auctions) filled(fields []byte, size int) []byte {
	value := a.padded(fields[:1:1], size)
	copy(value, fields)
	return value
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

// kindOf is the kind of an event, -1 for a value without one.
func kindOf(value []byte) int {
	if len(value) == 0 {
		return -1
	}
	return int(value[0])
}

// isBid reports whether the value is a bid's.
func isBid(value []byte) bool { return kindOf(value) == nexmarkBid }

// decodeBid reads a bid with whatever padding.
func decodeBid(value []byte) (b bid, err error) {
	if len(value) < bidFieldsBytes || !isBid(value) {
		return b, fmt.Errorf("a value of %d bytes is no bid", len(value))
	}
	b.auction, b.bidder = binary.BigEndian.Uint64(value[1:]), binary.BigEndian.Uint64(value[9:])
	b.price, b.at = int64(binary.BigEndian.Uint64(value[17:])), int64(binary.BigEndian.Uint64(value[25:]))
	return b, nil
}
