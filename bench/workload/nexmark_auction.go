package workload

import (
	"encoding/binary"
	"fmt"
	"time"
)

const (
	// auctionFieldsBytes is the size of the kind and the fields of an auction.
	auctionFieldsBytes = 1 + 7*8
	// categories is the number of categories, which begin with firstCategory.
	categories, firstCategory = 5, 10
	// longestAuction bounds the length of an auction, for joins of auctions and bids.
	longestAuction = 10 * time.Minute
)

// auction is an auction that queries look at.
type auction struct {
	id, seller, category uint64
	// initial and reserve are prices in cents. at and expires are the first and the last moment at
	// which a bid counts, in milliseconds since the epoch.
	initial, reserve, at, expires int64
}

// auction makes auction i of the n-th group of 50 events.
func (a *auctions) auction(n, i uint64, at int64, length time.Duration) auction {
	lastPerson := n * personsOf50
	active := min(lastPerson+1, activeBidders)
	made := auction{
		id: firstAuction + n*auctionsOf50 + i, category: firstCategory + a.fields.Uint64N(categories),
		seller:  firstPerson + lastPerson + 1 - active + a.fields.Uint64N(active+sellerLead),
		initial: price(a.fields), at: at, expires: at + length.Milliseconds(),
	}
	made.reserve = made.initial + price(a.fields)
	if a.fields.Uint64N(4) > 0 {
		made.seller = firstPerson + lastPerson/hotSellerEvery*hotSellerEvery
	}
	return made
}

// auctionLength draws the length of an auction. On average it is the time in which activeAuctions
// begin, at the rate of the events so far.
func (a *auctions) auctionLength(clock int64) time.Duration {
	mean := time.Duration((clock-a.began)/int64(a.made)) * activeEvents
	length := time.Millisecond + time.Duration(a.fields.Int64N(max(2*int64(mean), 1)))
	return min(length, longestAuction)
}

func (a auction) append(dst []byte) []byte {
	dst = append(dst, nexmarkAuction)
	for _, field := range []uint64{
		a.id, a.seller, a.category, uint64(a.initial), uint64(a.reserve), uint64(a.at), uint64(a.expires),
	} {
		dst = binary.BigEndian.AppendUint64(dst, field)
	}
	return dst
}

// decodeAuction reads an auction with any padding.
func decodeAuction(value []byte) (a auction, err error) {
	if len(value) < auctionFieldsBytes || value[0] != nexmarkAuction {
		return a, fmt.Errorf("a value of %d bytes is no auction", len(value))
	}
	a.id, a.seller = binary.BigEndian.Uint64(value[1:]), binary.BigEndian.Uint64(value[9:])
	a.category = binary.BigEndian.Uint64(value[17:])
	a.initial, a.reserve = int64(binary.BigEndian.Uint64(value[25:])), int64(binary.BigEndian.Uint64(value[33:]))
	a.at, a.expires = int64(binary.BigEndian.Uint64(value[41:])), int64(binary.BigEndian.Uint64(value[49:]))
	return a, nil
}
