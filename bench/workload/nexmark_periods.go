package workload

import (
	"bytes"
	"encoding/binary"
	"slices"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// Times of the windows of q5.
const (
	hotMillis, hotEveryMillis = 10_000, 2_000
)

var hotWindows = topology.Hopping(hotMillis*time.Millisecond, hotEveryMillis*time.Millisecond)

// windowKey is the key of a window in q5 and q7: its beginning in milliseconds.
func windowKey(start int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(start)) }

// hotItems is q5: the auctions with most bids in each hopping window of 10 s by 2 s.
//
//   - CountWindows counts bids by auction and window.
//   - Node "leading" keeps the largest count of its task for each window. It passes on the counts
//     that reach it, so that few go through the second repartition topic.
//   - Aggregate keeps the result of each window. Its changes are the output.
//
// Difference from the SQL: the output is a changelog with one record for each change of the result.
// The SQL has one result, when the window closes. The last record of a window is the result for the
// bids of the input. The number of records before it depends on the order in which partitions
// interleave.
//
//	key    beginning of the window in milliseconds
//	value  number of bids, then the auctions, ascending; 8 bytes each
func hotItems(windows topology.Windows) func(b *topology.Builder, t Topics) {
	return func(b *topology.Builder, t Topics) {
		byAuction := together(bids(b, t), func(b bid) []byte { return binary.BigEndian.AppendUint64(nil, b.auction) })
		counts := topology.CountWindows(byAuction, windows,
			topology.WindowStore("counts", schemas.Bytes(), schemas.Int64(), windows.Retention()))
		largest := topology.KeyValueStore("leading", schemas.Bytes(), schemas.Int64())
		leading := topology.Process(counts.Stream(), "leading", largest, func(
			c *topology.Context, rows state.KeyValue[[]byte, int64],
			r topology.Record[topology.Windowed[[]byte], topology.Option[int64]], emit topology.Emit[[]byte, []byte],
		) error {
			window, n := windowKey(r.Key.Start), r.Value.Or(0)
			most, _, err := rows.Get(window)
			if err != nil || n < most {
				return err
			}
			if n > most {
				if err := rows.Put(window, n); err != nil {
					return err
				}
			}
			count := append(binary.BigEndian.AppendUint64(nil, uint64(n)), r.Key.Key...)
			return emit(c, topology.WithKey(topology.WithValue(r, count), window))
		})
		byWindow := topology.RepartitionWith(leading, "by-window", schemas.Bytes(), schemas.Bytes())
		hot := topology.Aggregate(byWindow, topology.TimestampedStore("hot", schemas.Bytes(), schemas.Bytes()), nil,
			func(sofar []byte, r record) ([]byte, error) { return hotWith(sofar, r.Value), nil })
		changes := hot.Changes().Filter("changes", func(r topology.Record[[]byte, topology.Change[[]byte]]) (bool, error) {
			return !bytes.Equal(r.Value.Old.Or(nil), r.Value.New.Or(nil)), nil
		})
		into(topology.MapValues(changes, "results", func(c topology.Change[[]byte]) ([]byte, error) { return c.New.Or(nil), nil }), t)
	}
}

// hotWith returns the result of a window with one more count of an auction. Counts of an auction
// only grow, so an auction stays in the result until another one has more.
func hotWith(hot, count []byte) []byte {
	n, auction := count[:8], count[8:]
	if len(hot) > 0 {
		switch order := bytes.Compare(n, hot[:8]); {
		case order < 0:
			return hot
		case order == 0:
			at := 8
			for at < len(hot) && bytes.Compare(hot[at:at+8], auction) < 0 {
				at += 8
			}
			return slices.Concat(hot[:at], auction, hot[at:])
		}
	}
	return bytes.Clone(count)
}

// outbids is the order of q7 and q9: the higher price, then the earlier time, then the smaller
// auction, then the smaller bidder.
func (b bid) outbids(other bid) bool {
	switch {
	case b.price != other.price:
		return b.price > other.price
	case b.at != other.at:
		return b.at < other.at
	case b.auction != other.auction:
		return b.auction < other.auction
	}
	return b.bidder < other.bidder
}

// outbidding returns the value of the bid that outbids the other one. Of two that are alike, the
// first one stays.
func outbidding(sofar, next []byte) ([]byte, error) {
	kept, err := decodeBid(sofar)
	if err != nil {
		return nil, err
	}
	b, err := decodeBid(next)
	if err != nil || !b.outbids(kept) {
		return sofar, err
	}
	return next, nil
}

// highestBids is q7: the highest bid of each tumbling window of 10 s.
//
//   - ReduceWindows keeps the highest bid of each partition of the input. Closed emits it when the
//     stream time of the partition has passed the end of the window. No time of a partition goes
//     back, so no bid is late.
//   - Aggregate combines the partitions, behind a repartition topic by window.
//
// Differences from the SQL:
//
//   - The result is one bid: the earliest of those with the highest price.
//   - A window does not include its end.
//   - The output has one record for each partition that closes the window: the result of the
//     partitions so far, and their number. The last record of a window is the result.
//   - At the end of an input, the last window may have a result of some partitions, or none.
//
// A record of the output:
//
//	key    beginning of the window in milliseconds
//	value  number of partitions (8), bid with its padding
func highestBids(b *topology.Builder, t Topics) {
	// One key in all partitions, against the promise of Copartitioned: each task keeps the highest
	// bid of its own partition.
	whole := topology.SelectKey(bids(b, t), "whole", func(record) ([]byte, error) { return []byte{0}, nil }).Copartitioned()
	ofPartition := topology.ReduceWindows(whole, period,
		topology.WindowStore("highest-of-partition", schemas.Bytes(), schemas.Bytes(), period.Retention()),
		func(sofar []byte, r record) ([]byte, error) { return outbidding(sofar, r.Value) })
	keyed := topology.SelectKey(ofPartition.Closed(), "window", func(r topology.Record[topology.Windowed[[]byte], []byte]) ([]byte, error) {
		return windowKey(r.Key.Start), nil
	})
	byWindow := topology.RepartitionWith(keyed, "by-window", schemas.Bytes(), schemas.Bytes())
	topology.Aggregate(byWindow, topology.TimestampedStore("highest", schemas.Bytes(), schemas.Bytes()), nil,
		func(sofar []byte, r record) ([]byte, error) {
			n, best := uint64(0), r.Value
			if len(sofar) > 0 {
				var err error
				if best, err = outbidding(sofar[8:], r.Value); err != nil {
					return nil, err
				}
				n = binary.BigEndian.Uint64(sofar)
			}
			return append(binary.BigEndian.AppendUint64(nil, n+1), best...), nil
		}).Into(topology.Topic(t.Out, schemas.Bytes(), schemas.Bytes()))
}
