package workload

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/onceward/onceward/bench/measure"
)

// Sizes of an event, and where its parts are in the value.
const (
	KeyBytes   = 8
	ValueBytes = 100
	// IDBytes is the length of an event id, which is where the value begins.
	IDBytes = 16

	amountAt       = 16
	clockAt        = 24
	counterpartyAt = 32
	paddingAt      = 40
	// sumBytes is the size of an output with count and balance.
	sumBytes = 32
)

// Account is the key of a record. Its bytes are those of a big-endian number, or text that is
// padded with zeros.
type Account [KeyBytes]byte

// AccountOf returns the account with that number.
func AccountOf(n uint64) (a Account) {
	binary.BigEndian.PutUint64(a[:], n)
	return a
}

// Event is what a record of an input says.
type Event struct {
	Account Account
	// ID is text of 0-9 and a-v.
	ID     [IDBytes]byte
	Amount int64
	// Clock is when the event was made, or was due to be made, in nanoseconds since the epoch.
	Clock        int64
	Counterparty Account
	// Padding is the start of a sequence of bytes.
	Padding uint64
}

// Append appends the value of the event's record, which has [ValueBytes].
func (e Event) Append(value []byte) []byte {
	value = append(value, e.ID[:]...)
	value = binary.BigEndian.AppendUint64(value, uint64(e.Amount))
	value = binary.BigEndian.AppendUint64(value, uint64(e.Clock))
	value = append(value, e.Counterparty[:]...)
	for n, x := paddingAt, e.Padding; n < ValueBytes; n += 8 {
		x = x*6364136223846793005 + 1442695040888963407 // Knuth's MMIX generator
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], x^x>>32)
		value = append(value, word[:min(8, ValueBytes-n)]...)
	}
	return value
}

// Time is the event's clock as the timestamp of its record.
func (e Event) Time() time.Time { return time.UnixMilli(e.Clock / int64(time.Millisecond)) }

// DecodeEvent reads a record. The padding is not read.
func DecodeEvent(key, value []byte) (e Event, err error) {
	if len(key) != KeyBytes || len(value) != ValueBytes {
		return e, fmt.Errorf("a key of %d and a value of %d bytes are no event, which has %d and %d", len(key), len(value), KeyBytes,
			ValueBytes)
	}
	e.Account, e.ID = Account(key), [IDBytes]byte(value)
	e.Amount, e.Clock = amountOf(value), clockOf(value)
	e.Counterparty = Account(value[counterpartyAt:])
	return e, nil
}

func amountOf(value []byte) int64 { return int64(binary.BigEndian.Uint64(value[amountAt:])) }
func clockOf(value []byte) int64  { return int64(binary.BigEndian.Uint64(value[clockAt:])) }

// Clock returns the clock in the output of a workload that [Workload.HasClock]: what the latency of
// the output counts from.
func Clock(output []byte) (clock int64, err error) {
	if len(output) != ValueBytes && len(output) != sumBytes {
		return 0, fmt.Errorf("an output of %d bytes has no clock", len(output))
	}
	return clockOf(output), nil
}

// SumIn returns the count and the balance in an output. It returns false for an output that has
// none.
func SumIn(output []byte) (sum Sum, ok bool) {
	if len(output) != sumBytes {
		return sum, false
	}
	return Sum{Count: int64(binary.BigEndian.Uint64(output)), Balance: int64(binary.BigEndian.Uint64(output[8:]))}, true
}

// idDigits are the characters of an id: 32, in the order of their bytes.
const idDigits = "0123456789abcdefghijklmnopqrstuv"

// idOf makes an id of 80 bits.
func idOf(high uint16, low uint64) (id [IDBytes]byte) {
	for i := range 13 {
		id[IDBytes-1-i] = idDigits[low&31]
		low >>= 5 // the last digit has 4 bits
	}
	for i := range 3 {
		id[i] = idDigits[high&31]
		high >>= 5
	}
	return id
}

// EventID is the id of the event with that number, among events that are numbered. Ids do not
// ascend with the numbers.
func EventID(n uint64) [IDBytes]byte { return idOf(0, measure.Scatter(n)) }
