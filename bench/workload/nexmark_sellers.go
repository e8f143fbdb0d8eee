package workload

import (
	"encoding/binary"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// localCategory is the category of q3.
const localCategory = 10

// isLocal reports whether q3 asks for a state.
func isLocal(state [stateBytes]byte) bool {
	switch string(state[:]) {
	case "OR", "ID", "CA":
		return true
	}
	return false
}

// localItems is q3: the sellers in OR, ID or CA of auctions of category 10, with the auctions.
// JoinForeignKey joins the tables of auctions and persons. The foreign key is the seller of the
// auction.
//
// Difference from the SQL: the result is a table with the auction's event as key, and the output is
// its changelog. No event changes a person or an auction, so there is one change for each row of
// the SQL's result, in any order.
//
//	key    the number of the auction's event
//	value  auction (8), name (16), city (16), state (2)
func localItems(b *topology.Builder, t Topics) {
	events := read(b, t)
	locals := ofKind(events, "persons", nexmarkPerson, personFieldsBytes).Filter("local", func(r record) (bool, error) {
		p, err := decodePerson(r.Value)
		return isLocal(p.state), err
	})
	persons := topology.ToTable(movedBy(locals, "persons-by-id", personID),
		topology.TimestampedStore("person-table", schemas.Bytes(), schemas.Bytes()))
	items := ofKind(events, "auctions", nexmarkAuction, auctionFieldsBytes).Filter("category", func(r record) (bool, error) {
		a, err := decodeAuction(r.Value)
		return a.category == localCategory, err
	})
	auctions := topology.ToTable(items, topology.TimestampedStore("auction-table", schemas.Bytes(), schemas.Bytes()))
	topology.JoinForeignKey(auctions, persons, "local-items", func(_, value []byte) (topology.Option[[]byte], error) {
		seller, err := sellerOf(value)
		return topology.Some(binary.BigEndian.AppendUint64(nil, seller)), err
	}, func(_, auction, seller []byte) ([]byte, error) {
		a, err := decodeAuction(auction)
		if err != nil {
			return nil, err
		}
		p, err := decodePerson(seller)
		item := binary.BigEndian.AppendUint64(nil, a.id)
		return append(append(append(item, p.name[:]...), p.city[:]...), p.state[:]...), err
	}).Into(topology.Topic(t.Out, schemas.Bytes(), schemas.Bytes()))
}

func personID(value []byte) (uint64, error) {
	p, err := decodePerson(value)
	return p.id, err
}

func sellerOf(value []byte) (uint64, error) {
	a, err := decodeAuction(value)
	return a.seller, err
}

// periodMillis is the size of the tumbling windows of q7 and q8.
const periodMillis = 10_000

var period = topology.Tumbling(periodMillis * time.Millisecond)

// periodOf is the beginning of the window of a time.
func periodOf(ms int64) int64 { return ms / periodMillis * periodMillis }

// newSellers is q8: the persons who opened an auction in the tumbling window of 10 s in which they
// registered.
//
//   - CountWindows counts auctions by seller and window. The first one goes on.
//   - JoinStreams finds the person.
//
// Difference from the SQL: a result is emitted as soon as the person and an auction of the window
// are there. The SQL emits it when the window closes. There is one output for each row of the SQL's
// result, in any order.
//
// The grace is that of the windows and of the join.
//
//	key    person
//	value  name (16), beginning of the window in milliseconds (8)
func newSellers(grace time.Duration) func(b *topology.Builder, t Topics) {
	return func(b *topology.Builder, t Topics) {
		events := read(b, t)
		persons := movedBy(ofKind(events, "persons", nexmarkPerson, personFieldsBytes), "persons-by-id", personID)
		auctions := movedBy(ofKind(events, "auctions", nexmarkAuction, auctionFieldsBytes), "auctions-by-seller", sellerOf)
		windows := period.Grace(grace)
		opened := topology.CountWindows(auctions, windows,
			topology.WindowStore("opened", schemas.Bytes(), schemas.Int64(), windows.Retention()))
		firsts := opened.Stream().Filter("first", func(r topology.Record[topology.Windowed[[]byte], topology.Option[int64]]) (bool, error) {
			return r.Value.Or(0) == 1, nil
		})
		// The key of a window begins with the seller, who stays in the partition.
		began := topology.Map(firsts, "began", func(
			r topology.Record[topology.Windowed[[]byte], topology.Option[int64]],
		) (topology.Record[[]byte, int64], error) {
			return topology.WithKey(topology.WithValue(r, r.Key.Start), r.Key.Key), nil
		}).Copartitioned()
		joined := topology.JoinStreams(persons, began, "new-sellers", topology.Within(period.Size()).Grace(grace),
			schemas.Bytes(), schemas.Bytes(), schemas.Int64(), func(_, value []byte, window int64) ([]byte, error) {
				p, err := decodePerson(value)
				if err != nil || periodOf(p.at) != window {
					return nil, err
				}
				return binary.BigEndian.AppendUint64(append([]byte(nil), p.name[:]...), uint64(window)), nil
			})
		into(joined.Filter("same-window", func(r record) (bool, error) { return r.Value != nil, nil }), t)
	}
}
