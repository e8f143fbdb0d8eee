package workload

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/onceward/onceward/bench/measure"
)

// The records of joins and sessions. Both sides of a join are in one topic, so that they have the
// same partitions, and the offsets say what a record meets.
//
//	key    8 bytes
//	value
//	 0        the side: l for the left one, r for the right one
//	 1 ..  7  zeros
//	 8 .. 15  number of the record, from 0
//	16 .. 23  amount, signed
//	24 .. 31  reference: a key of the right side, or zeros
//	32 .. 99  padding that does not compress
const (
	leftSide, rightSide = 'l', 'r'

	numberAt         = 8
	referenceAt      = 24
	sidedPaddingAt   = 32
	sidedBytes       = 100
	joinedBytes      = 2 * (referenceAt - numberAt)
	sessionBytes     = 32
	sessionGapMillis = int64(sessionGap / time.Millisecond)
)

// The event time of the records. It goes its own pace, so that an input is the same however fast it
// is written.
const (
	// betweenRecords is the mean time between two records of a key.
	betweenRecords = 10 * time.Second
	// writtenBefore is how far in the past the first record is. Kafka takes no record that is an
	// hour ahead of its clock, and deletes from changelogs of windows what is a day old.
	writtenBefore = 12 * time.Hour
	// One of lateOneOf records is late, by mostLate at most. Every window has a grace above that,
	// so that no record is too late: which ones are depends on how tasks move.
	lateOneOf      = 8
	mostLate       = 5 * time.Second
	mostLateMillis = int64(mostLate / time.Millisecond)
)

// sidedRecord is what a record says.
type sidedRecord struct {
	key       Account
	side      byte
	number    uint64
	amount    int64
	reference Account
}

// appendValue appends the value, but for the padding.
func (e sidedRecord) appendValue(dst []byte) []byte {
	dst = append(dst, e.side, 0, 0, 0, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint64(dst, e.number)
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.amount))
	return append(dst, e.reference[:]...)
}

func decodeSided(key, value []byte) (e sidedRecord, err error) {
	if len(key) != KeyBytes || len(value) != sidedBytes || value[0] != leftSide && value[0] != rightSide {
		return e, fmt.Errorf("a key of %d and a value of %d bytes are no record of a join", len(key), len(value))
	}
	e.key, e.side = Account(key), value[0]
	e.number, e.amount = binary.BigEndian.Uint64(value[numberAt:]), amountOf(value)
	e.reference = Account(value[referenceAt:])
	return e, nil
}

// sidedSource is the source of such records.
type sidedSource struct {
	rng *rand.Rand
	// step is the time from one record to the next, in nanoseconds, began that of the first.
	step, began int64
	made        uint64
	// next makes the record with that number, but for the number and the amount.
	next func(n uint64) sidedRecord
}

func newSidedSource(in Input, content func(in Input, rng *rand.Rand) (func(n uint64) sidedRecord, error)) (Source, error) {
	rng := rand.New(rand.NewPCG(in.Seed, 2))
	next, err := content(in, rng)
	if err != nil {
		return nil, err
	}
	return &sidedSource{rng: rng, step: int64(betweenRecords) / in.Keys, next: next}, nil
}

// Next implements [Source]. Only the clock of the first record counts.
func (s *sidedSource) Next(clock int64) Record {
	if s.made == 0 {
		s.began = clock - int64(writtenBefore)
	}
	e := s.next(s.made)
	e.number, e.amount = s.made, 1+s.rng.Int64N(amountMax)
	at := (s.began + int64(s.made)*s.step) / int64(time.Millisecond)
	if s.rng.Uint64N(lateOneOf) == 0 {
		at -= s.rng.Int64N(mostLateMillis + 1)
	}
	s.made++
	buf := e.appendValue(append(make([]byte, 0, KeyBytes+sidedBytes+7), e.key[:]...))
	for len(buf) < KeyBytes+sidedBytes {
		buf = binary.LittleEndian.AppendUint64(buf, s.rng.Uint64())
	}
	return Record{Key: buf[:KeyBytes:KeyBytes], Value: buf[KeyBytes : KeyBytes+sidedBytes], Timestamp: at}
}

// visits are records about accounts: one of ten is the new row of its account, the others are
// events.
func visits(in Input, rng *rand.Rand) (func(n uint64) sidedRecord, error) {
	account, err := in.accounts(rng)
	return func(uint64) sidedRecord {
		e := sidedRecord{key: account(), side: leftSide}
		if rng.Uint64N(10) == 0 {
			e.side = rightSide
		}
		return e
	}, err
}

// pairs are records of which every other one opens a key, on either side. Each record between has
// the other side of such a key. It comes at most in.Keys records behind the one that opened the
// key, and can meet that one alone.
func pairs(in Input, rng *rand.Rand) (func(n uint64) sidedRecord, error) {
	if in.Keys < 1 {
		return nil, fmt.Errorf("%d is no distance of two records of a pair; it is at least 1", in.Keys)
	}
	apart := max(uint64(in.Keys)/2, 1)
	return func(n uint64) sidedRecord {
		pair, opens := n/2, n%2 == 0
		if !opens {
			pair -= rng.Uint64N(min(pair+1, apart))
		}
		// Scatter is a permutation, so that no two pairs have one key.
		key := measure.Scatter(in.Seed<<48 + pair)
		e := sidedRecord{key: AccountOf(key), side: leftSide}
		if (key&1 == 0) == opens {
			e.side = rightSide
		}
		return e
	}, nil
}

// referencedOf is how many rows of the left side have one row of the right side, in the mean.
const referencedOf = 10

// references are rows of two tables. The left table has a row for each account, the right table for
// a tenth of the accounts. The rows of the right table come first. Then one of twenty records is of
// the right table. An account has a row of its own that it names. One of eight updates names any
// other row.
func references(in Input, rng *rand.Rand) (func(n uint64) sidedRecord, error) {
	account, err := in.accounts(rng)
	if err != nil {
		return nil, err
	}
	named := max(uint64(in.Keys)/referencedOf, 1)
	return func(n uint64) sidedRecord {
		if n < named {
			return sidedRecord{key: AccountOf(n), side: rightSide}
		}
		key := account()
		number := binary.BigEndian.Uint64(key[:])
		if rng.Uint64N(20) == 0 {
			return sidedRecord{key: AccountOf(number % named), side: rightSide}
		}
		reference := measure.Scatter(number) % named
		if rng.Uint64N(8) == 0 {
			reference = rng.Uint64N(named)
		}
		return sidedRecord{key: key, side: leftSide, reference: AccountOf(reference)}
	}, nil
}
