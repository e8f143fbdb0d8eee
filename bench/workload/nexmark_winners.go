package workload

import (
	"encoding/binary"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// offer is a bid that came in time, with its auction.
type offer struct{ auction, bid []byte }

// winning joins auctions and bids (JoinStreams) and passes on each bid that is in time for its
// auction and beats those before it. The key is the auction.
func winning(auctions, bids stream, beats func(b, other bid) bool) topology.Stream[[]byte, offer] {
	offers := topology.JoinStreams(
		movedBy(auctions, "auctions-by-id", func(v []byte) (uint64, error) {
			a, err := decodeAuction(v)
			return a.id, err
		}),
		movedBy(bids, "bids-by-auction", func(v []byte) (uint64, error) {
			b, err := decodeBid(v)
			return b.auction, err
		}),
		"offers", topology.Within(0).After(longestAuction).Grace(wholeInput), schemas.Bytes(), schemas.Bytes(), schemas.Bytes(),
		func(_, a, b []byte) (offer, error) { return offer{a, b}, nil },
	).Filter("in-time", func(r topology.Record[[]byte, offer]) (bool, error) {
		a, err := decodeAuction(r.Value.auction)
		if err != nil {
			return false, err
		}
		b, err := decodeBid(r.Value.bid)
		return a.at <= b.at && b.at <= a.expires, err
	})
	best := topology.KeyValueStore("winning", schemas.Bytes(), schemas.Bytes())
	return topology.ProcessValues(offers, "winning", best, func(
		c *topology.Context, rows state.KeyValue[[]byte, []byte], r topology.Record[[]byte, offer], emit topology.EmitFixedKey[offer],
	) error {
		bid := r.Value.bid[:bidFieldsBytes]
		kept, has, err := rows.Get(r.Key)
		if err != nil {
			return err
		}
		if has {
			now, err := decodeBid(bid)
			if err != nil {
				return err
			}
			before, err := decodeBid(kept)
			if err != nil || !beats(now, before) {
				return err
			}
		}
		if err := rows.Put(r.Key, bid); err != nil {
			return err
		}
		return emit(c, topology.FixedKey(r.Value))
	})
}

// winningBids is q9: the winning bid of each auction, which is the highest one while the auction is
// open, and the earliest of those.
//
// Differences from the SQL: the output is a changelog with one record for each bid that outbids
// those that were joined before it. The last record of an auction is the result. How many come
// before it depends on the order in which partitions interleave. Of two bids with one price and
// time, the one of the smaller bidder wins.
//
//	key    auction
//	value  auction and bid with their padding
func winningBids(b *topology.Builder, t Topics) {
	events := read(b, t)
	won := winning(ofKind(events, "auctions", nexmarkAuction, auctionBytes), ofKind(events, "bids", nexmarkBid, bidBytes),
		bid.outbids)
	into(topology.MapValues(won, "both", func(o offer) ([]byte, error) {
		return append(append(make([]byte, 0, len(o.auction)+len(o.bid)), o.auction...), o.bid...), nil
	}), t)
}

// categoryPrices is q4: the mean of the winning prices of the auctions of each category. The
// winning prices are a table by auction (ToTable). GroupTable and AggregateTable group it by
// category: a price that is outbid leaves the mean before the next one enters it.
//
// Differences from the SQL: the output is a changelog with one record for each change of a winning
// price. It has the number and the sum of the prices, whose quotient is the mean, and the auction
// and the price that changed them. The last record of a category has the result. How many come
// before it depends on the order in which partitions interleave.
//
//	key    category
//	value  number of auctions with a winner, sum of their prices, auction, its price; 8 bytes each
func categoryPrices(b *topology.Builder, t Topics) {
	events := read(b, t)
	won := winning(ofKind(events, "auctions", nexmarkAuction, auctionFieldsBytes), ofKind(events, "bids", nexmarkBid, bidFieldsBytes),
		func(b, other bid) bool { return b.price > other.price })
	winners := topology.MapValues(won, "price", func(o offer) (winner, error) {
		a, err := decodeAuction(o.auction)
		if err != nil {
			return winner{}, err
		}
		b, err := decodeBid(o.bid)
		return winner{category: a.category, auction: a.id, price: b.price}, err
	})
	table := topology.ToTable(winners, topology.TimestampedStore[[]byte, winner]("winners", schemas.Bytes(), winnerCodec{}))
	grouped := topology.GroupTable(table, "by-category", schemas.Bytes(), schemas.Codec[winner](winnerCodec{}),
		func(_ []byte, w winner) ([]byte, winner, error) {
			return binary.BigEndian.AppendUint64(nil, w.category), w, nil
		})
	topology.AggregateTable(grouped, topology.TimestampedStore[[]byte, prices]("prices", schemas.Bytes(), pricesCodec{}), nil,
		func(p prices, _ []byte, w winner) (prices, error) {
			return prices{count: p.count + 1, sum: p.sum + w.price, auction: w.auction, price: w.price}, nil
		},
		func(p prices, _ []byte, w winner) (prices, error) {
			return prices{count: p.count - 1, sum: p.sum - w.price, auction: w.auction, price: w.price}, nil
		}).Into(topology.Topic[[]byte, prices](t.Out, schemas.Bytes(), pricesCodec{}))
}

// winner is the winning price of an auction.
type winner struct {
	category, auction uint64
	price             int64
}

// prices are those of q4.
type prices struct {
	count, sum int64
	auction    uint64
	price      int64
}

// winnerCodec writes the fields one after the other.
type winnerCodec struct{}

// Name implements schemas.Codec.
func (winnerCodec) Name() string { return "nexmark-winner" }

// Append implements schemas.Codec.
func (winnerCodec) Append(dst []byte, w winner) ([]byte, error) {
	return appendNumbers(dst, w.category, w.auction, uint64(w.price)), nil
}

// Decode implements schemas.Codec.
func (c winnerCodec) Decode(b []byte) (winner, error) {
	n, err := numbers(c.Name(), b, 3)
	if err != nil {
		return winner{}, err
	}
	return winner{category: n[0], auction: n[1], price: int64(n[2])}, nil
}

// pricesCodec writes the fields one after the other.
type pricesCodec struct{}

// Name implements schemas.Codec.
func (pricesCodec) Name() string { return "nexmark-prices" }

// Append implements schemas.Codec.
func (pricesCodec) Append(dst []byte, p prices) ([]byte, error) {
	return appendNumbers(dst, uint64(p.count), uint64(p.sum), p.auction, uint64(p.price)), nil
}

// Decode implements schemas.Codec.
func (c pricesCodec) Decode(b []byte) (prices, error) {
	n, err := numbers(c.Name(), b, 4)
	if err != nil {
		return prices{}, err
	}
	return prices{count: int64(n[0]), sum: int64(n[1]), auction: n[2], price: int64(n[3])}, nil
}

// appendNumbers appends numbers of 8 bytes.
func appendNumbers(dst []byte, of ...uint64) []byte {
	for _, n := range of {
		dst = binary.BigEndian.AppendUint64(dst, n)
	}
	return dst
}

// numbers reads so many numbers of 8 bytes, at most 4.
func numbers(codec string, b []byte, count int) (n [4]uint64, err error) {
	if len(b) != 8*count {
		return n, &schemas.Error{
			Codec: codec, Op: schemas.OpDecode, Offset: int64(min(len(b), 8*count)), Reason: "the value has another number of fields",
		}
	}
	for i := range count {
		n[i] = binary.BigEndian.Uint64(b[8*i:])
	}
	return n, nil
}
