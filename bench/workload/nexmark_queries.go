package workload

import (
	"encoding/binary"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// query is one of Nexmark's, in the form of a stream: where a query has a table as its result,
// there is an output for each change.
//
//	q0   bids as they are: what reading and writing alone cost
//	q1   bids with the price in euros
//	q2   bids for every 123rd auction
//	q3   sellers of some states, with their auctions of a category
//	q4   per category: the mean of the winning prices of its auctions
//	q5   per window: the auctions with most bids
//	q7   per window: the highest bid
//	q8   per window: the persons who came and opened an auction in it
//	q9   per auction: the winning bid
//	q17  per auction and day: how many bids there are, below 10,000, below 1,000,000 and above, least, greatest, mean and sum of prices
//	q18  per auction and bidder: the last bid
type query struct {
	// each is what a query without state makes of a bid; nil for the others.
	each func(b bid) (bid, bool)
	// shuffled returns the judge of a query with state.
	shuffled func() Shuffled
}

// nexmark are the queries.
func nexmark() []Workload {
	q0 := &query{each: func(b bid) (bid, bool) { return b, true }}
	q1 := &query{each: func(b bid) (bid, bool) { b.price = b.price * 908 / 1000; return b, true }}
	q2 := &query{each: func(b bid) (bid, bool) { return b, b.auction%123 == 0 }}
	return []Workload{
		{Name: "nexmark-q0", Data: Nexmark, About: "passes bids on", build: keepBids, query: q0},
		{Name: "nexmark-q1", Data: Nexmark, About: "converts the prices of bids", build: convertBids, query: q1},
		{Name: "nexmark-q2", Data: Nexmark, About: "picks the bids for some auctions", build: pickBids, query: q2},
		{
			Name: "nexmark-q3", Data: Nexmark, About: "joins auctions with their sellers by a foreign key", Shuffles: true,
			build: localItems, query: &query{shuffled: newLocalItemsJudge},
		},
		{
			Name: "nexmark-q4", Data: Nexmark, About: "keeps the mean of the winning prices by category", Shuffles: true,
			build: categoryPrices, query: &query{shuffled: newCategoryPricesJudge},
		},
		{
			Name: "nexmark-q5", Data: Nexmark, About: "keeps the auctions with most bids by hopping window", Shuffles: true,
			build: hotItems(hotWindows.Grace(wholeInput)), query: &query{shuffled: newHotItemsJudge},
		},
		{
			Name: "nexmark-q7", Data: Nexmark, About: "finds the highest bid of each window when it closes", Shuffles: true,
			build: highestBids, query: &query{shuffled: newHighestBidsJudge},
		},
		{
			Name: "nexmark-q8", Data: Nexmark, About: "joins new persons with the auctions that they open in the same window",
			Shuffles: true, build: newSellers(wholeInput), query: &query{shuffled: newNewSellersJudge},
		},
		{
			Name: "nexmark-q9", Data: Nexmark, About: "keeps the winning bid of each auction", Shuffles: true,
			build: winningBids, query: &query{shuffled: newWinningBidsJudge},
		},
		{
			Name: "nexmark-q17", Data: Nexmark, About: "keeps statistics of bids by auction and day", Shuffles: true,
			build: auctionStatistics, query: &query{shuffled: newStatisticsJudge},
		},
		{
			Name: "nexmark-q18", Data: Nexmark, About: "keeps the last bid of each bidder for each auction", Shuffles: true,
			build: lastBids, query: &query{shuffled: newLastBidJudge},
		},
	}
}

func bids(b *topology.Builder, t Topics) stream {
	return read(b, t).Filter("bids", func(r record) (bool, error) { return isBid(r.Value), nil })
}

// wholeInput is a grace period longer than an input lasts. Behind a repartition topic, the
// partitions of the input interleave as they are read. With this grace no record is late, and the
// results do not depend on that order.
const wholeInput = 24 * time.Hour

// ofKind keeps the events of a kind, with their fields and without their padding.
func ofKind(s stream, name string, kind, fields int) stream {
	kept := s.Filter(name, func(r record) (bool, error) { return kindOf(r.Value) == kind, nil })
	return topology.MapValues(kept, name+"-fields", func(v []byte) ([]byte, error) {
		if len(v) < fields {
			return nil, errNoEvent
		}
		return v[:fields], nil
	})
}

// movedBy brings the records with one number together, through a repartition topic.
func movedBy(s stream, name string, number func(value []byte) (uint64, error)) stream {
	keyed := topology.SelectKey(s, name+"-key", func(r record) ([]byte, error) {
		n, err := number(r.Value)
		return binary.BigEndian.AppendUint64(nil, n), err
	})
	return topology.RepartitionWith(keyed, name, schemas.Bytes(), schemas.Bytes())
}

func into(s stream, t Topics) { s.Into(topology.Topic(t.Out, schemas.Bytes(), schemas.Bytes())) }

func keepBids(b *topology.Builder, t Topics) { into(bids(b, t), t) }

func convertBids(b *topology.Builder, t Topics) {
	into(topology.MapValues(bids(b, t), "euros", func(v []byte) ([]byte, error) {
		bid, err := decodeBid(v)
		if err != nil {
			return nil, err
		}
		bid.price = bid.price * 908 / 1000
		return append(bid.append(make([]byte, 0, len(v))), v[bidFieldsBytes:]...), nil
	}), t)
}

func pickBids(b *topology.Builder, t Topics) {
	into(bids(b, t).Filter("picked", func(r record) (bool, error) {
		bid, err := decodeBid(r.Value)
		return bid.auction%123 == 0, err
	}), t)
}

// together brings the bids of each key together, through a repartition topic.
func together(s stream, by func(b bid) []byte) stream {
	keyed := topology.SelectKey(s, "key", func(r record) ([]byte, error) {
		bid, err := decodeBid(r.Value)
		return by(bid), err
	})
	return topology.RepartitionWith(keyed, "by-key", schemas.Bytes(), schemas.Bytes())
}

// dayMillis is a day, which is one of UTC here.
const dayMillis = 24 * 60 * 60 * 1000

func auctionAndDay(b bid) []byte {
	key := binary.BigEndian.AppendUint64(make([]byte, 0, 16), b.auction)
	return binary.BigEndian.AppendUint64(key, uint64(b.at/dayMillis))
}

func auctionAndBidder(b bid) []byte {
	key := binary.BigEndian.AppendUint64(make([]byte, 0, 16), b.auction)
	return binary.BigEndian.AppendUint64(key, b.bidder)
}

// statistics are those of q17. Its mean is the sum by the count.
type statistics struct {
	count, low, middle, high, least, most, sum int64
}

// statisticsBytes is the size of encoded statistics.
const statisticsBytes = 7 * 8

// with returns the statistics with one more price, in cents.
func (s statistics) with(price int64) statistics {
	switch {
	case price < 10_000:
		s.low++
	case price < 1_000_000:
		s.middle++
	default:
		s.high++
	}
	if s.count == 0 || price < s.least {
		s.least = price
	}
	s.count, s.most, s.sum = s.count+1, max(s.most, price), s.sum+price
	return s
}

// statisticsCodec writes the fields one after the other.
type statisticsCodec struct{}

// Name implements schemas.Codec.
func (statisticsCodec) Name() string { return "nexmark-statistics" }

// Append implements schemas.Codec.
func (statisticsCodec) Append(dst []byte, s statistics) ([]byte, error) {
	for _, field := range []int64{s.count, s.low, s.middle, s.high, s.least, s.most, s.sum} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(field))
	}
	return dst, nil
}

// Decode implements schemas.Codec.
func (statisticsCodec) Decode(b []byte) (s statistics, err error) {
	if len(b) != statisticsBytes {
		return s, &schemas.Error{
			Codec: statisticsCodec{}.Name(), Op: schemas.OpDecode, Offset: int64(min(len(b), statisticsBytes)),
			Reason: "not the length of statistics",
		}
	}
	for i, field := range []*int64{&s.count, &s.low, &s.middle, &s.high, &s.least, &s.most, &s.sum} {
		*field = int64(binary.BigEndian.Uint64(b[8*i:]))
	}
	return s, nil
}

func auctionStatistics(b *topology.Builder, t Topics) {
	store := topology.KeyValueStore[[]byte, statistics]("statistics", schemas.Bytes(), statisticsCodec{})
	out := topology.Process(together(bids(b, t), auctionAndDay), "statistics", store, func(
		c *topology.Context, rows state.KeyValue[[]byte, statistics], r record, emit topology.Emit[[]byte, statistics],
	) error {
		bid, err := decodeBid(r.Value)
		if err != nil {
			return err
		}
		s, _, err := rows.Get(r.Key)
		if err != nil {
			return err
		}
		s = s.with(bid.price)
		if err := rows.Put(r.Key, s); err != nil {
			return err
		}
		return emit(c, topology.WithValue(r, s))
	})
	out.Into(topology.Topic[[]byte, statistics](t.Out, schemas.Bytes(), statisticsCodec{}))
}

// lastBids lets a bid pass that is later than the one that is kept. Of two at one time, the first
// to arrive stays.
func lastBids(b *topology.Builder, t Topics) {
	store := topology.KeyValueStore("last", schemas.Bytes(), schemas.Bytes())
	into(topology.Process(together(bids(b, t), auctionAndBidder), "last", store, func(
		c *topology.Context, rows state.KeyValue[[]byte, []byte], r record, emit topology.Emit[[]byte, []byte],
	) error {
		now, err := decodeBid(r.Value)
		if err != nil {
			return err
		}
		kept, has, err := rows.Get(r.Key)
		if err != nil {
			return err
		}
		if has {
			last, err := decodeBid(kept)
			if err != nil || last.at >= now.at {
				return err
			}
		}
		if err := rows.Put(r.Key, r.Value); err != nil {
			return err
		}
		return emit(c, r)
	}), t)
}
