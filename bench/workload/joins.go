package workload

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// The kinds of input of joins and sessions.
const (
	// Visits are events of accounts and rows about them.
	Visits Data = "visits"
	// Pairs are records of which two have one key.
	Pairs Data = "pairs"
	// References are rows of two tables, of which one names rows of the other.
	References Data = "references"
)

// sided is what joins and sessions have: their input, and one of two judges.
type sided struct {
	content  func(in Input, rng *rand.Rand) (func(n uint64) sidedRecord, error)
	meets    func() meeter
	shuffled func() Shuffled
}

// joins are the workloads over records with sides, and the sessions of such records.
func joins() []Workload {
	return []Workload{
		{
			Name: "stream-table", About: "joins each event with the row of its account: a stream and a table", Data: Visits,
			build: joinStreamTable, sided: &sided{content: visits, meets: newRowMeeter},
		},
		{
			Name: "stream-stream", About: "joins the two sides of a pair, from 5 s before to 10 s after: two streams", Data: Pairs,
			build: joinStreams, sided: &sided{content: pairs, meets: newPairMeeter},
		},
		{
			Name: "foreign-key", About: "joins each row with the row that it names: two tables and a foreign key", Data: References,
			Shuffles: true, build: joinForeignKey, sided: &sided{content: references, shuffled: newReferenceJudge},
		},
		{
			Name: "sessions", About: "keeps count and sum of the sessions of each account, with a gap of 10 s", Data: Visits,
			build: sumSessions, sided: &sided{content: visits, meets: newSessionMeeter},
		},
	}
}

// Uses returns the settings without those that the workload's records do not follow. Records of
// joins and sessions have no duplicates, and pairs have keys of their own.
func (w Workload) Uses(in Input) Input {
	if w.sided != nil {
		in.Duplicates = 0
	}
	if w.Data == Pairs {
		in.Distribution = ""
	}
	return in
}

const errNoSide = schemas.Reason("the value does not have the length of a record of a join")

// sideOf returns the records of a side.
func sideOf(side byte, s stream, name string) stream {
	return s.Filter(name, func(r record) (bool, error) {
		if len(r.Value) != sidedBytes {
			return false, errNoSide
		}
		return r.Value[0] == side, nil
	})
}

// joinedOf is the result of a join: number and amount of both sides.
func joinedOf(_ []byte, left, right []byte) ([]byte, error) {
	joined := append(make([]byte, 0, joinedBytes), left[numberAt:referenceAt]...)
	return append(joined, right[numberAt:referenceAt]...), nil
}

func sideTable(s stream, name string) topology.Table[[]byte, []byte] {
	return topology.ToTable(s, topology.TimestampedStore(name, schemas.Bytes(), schemas.Bytes()))
}

func joinStreamTable(b *topology.Builder, t Topics) {
	in := read(b, t)
	rows := sideTable(sideOf(rightSide, in, "row"), "rows")
	into(topology.JoinStreamTable(sideOf(leftSide, in, "event"), rows, "joined", joinedOf), t)
}

// The limits of the join of two streams. A record of the right side may be that much older or
// younger than the one of the left side.
const (
	pairBefore = 5 * time.Second
	pairAfter  = 10 * time.Second
	// sidedGrace is that of all windows, twice as long as a record is late.
	sidedGrace = 2 * mostLate
)

func joinStreams(b *topology.Builder, t Topics) {
	in, value := read(b, t), schemas.Bytes()
	windows := topology.Within(pairAfter).Before(pairBefore).Grace(sidedGrace)
	into(topology.JoinStreams(sideOf(leftSide, in, "left"), sideOf(rightSide, in, "right"), "joined", windows, value, value, value, joinedOf), t)
}

func joinForeignKey(b *topology.Builder, t Topics) {
	in := read(b, t)
	lefts, rights := sideTable(sideOf(leftSide, in, "left"), "lefts"), sideTable(sideOf(rightSide, in, "right"), "rights")
	named := func(_ []byte, left []byte) (topology.Option[[]byte], error) {
		return topology.Some(left[referenceAt:sidedPaddingAt]), nil
	}
	joined := topology.JoinForeignKey(lefts, rights, "joined", named, joinedOf)
	joined.Into(topology.Topic(t.Out, schemas.Bytes(), schemas.Bytes()))
}

const sessionGap = 10 * time.Second

// sumSessions has an output for each record: the session that it is in now. That sessions have
// become part of it is left out. The output has the key of the record, and so its partition.
func sumSessions(b *topology.Builder, t Topics) {
	windows := topology.Sessions(sessionGap).Grace(sidedGrace)
	store := topology.SessionStore("sessions", schemas.Bytes(), schemas.Bytes(), windows.Retention())
	sums := topology.AggregateSessions(read(b, t), windows, store,
		func() []byte { return make([]byte, 16) },
		func(sofar []byte, r record) ([]byte, error) {
			if len(r.Value) != sidedBytes {
				return nil, errNoSide
			}
			return sessionPlus(sofar, 1, amountOf(r.Value)), nil
		},
		func(_, a, b []byte) ([]byte, error) {
			return sessionPlus(a, binary.BigEndian.Uint64(b), int64(binary.BigEndian.Uint64(b[8:]))), nil
		})
	into(topology.FlatMap(sums.Stream(), "session", func(
		r topology.Record[topology.Windowed[[]byte], topology.Option[[]byte]], emit func(record) error,
	) error {
		sum, ok := r.Value.Get()
		if !ok {
			return nil
		}
		value := binary.BigEndian.AppendUint64(make([]byte, 0, sessionBytes), uint64(r.Key.Start))
		value = binary.BigEndian.AppendUint64(value, uint64(r.Key.End))
		return emit(topology.WithKey(topology.WithValue(r, append(value, sum...)), r.Key.Key))
	}), t)
}

// sessionPlus adds to a count and a sum.
func sessionPlus(sofar []byte, count uint64, sum int64) []byte {
	now := binary.BigEndian.AppendUint64(make([]byte, 0, 16), binary.BigEndian.Uint64(sofar)+count)
	return binary.BigEndian.AppendUint64(now, binary.BigEndian.Uint64(sofar[8:])+uint64(sum))
}
