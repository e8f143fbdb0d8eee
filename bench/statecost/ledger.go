package statecost

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/state"
)

const (
	balances      = "balances"
	contributions = "contributions"

	keyBytes                     = 16
	valueBytesMin, valueBytesMax = 32, 100
	// posted is the number of the first contribution that a load posts. Smaller ones were there
	// before.
	posted = 1 << 40
)

// Distribution says how accounts are drawn.
type Distribution string

// The distributions.
const (
	Uniform Distribution = "uniform"
	Zipf    Distribution = "zipf"
)

// Workload is what a load does. The same workload gives the same records.
type Workload struct {
	Distribution Distribution `json:"distribution"`
	// Exponent is that of Zipf's law, above 1.
	Exponent float64 `json:"exponent,omitempty"`
	// Duplicates is the share of records whose contribution was posted before the load.
	Duplicates float64 `json:"duplicates"`
	// Round is the number of records that are applied together.
	Round int    `json:"round"`
	Seed  uint64 `json:"seed"`
}

// Keys is a number of keys. Half of them are accounts.
type Keys int64

func (k Keys) accounts() int64      { return int64(k) / 2 }
func (k Keys) contributions() int64 { return int64(k) - k.accounts() }

// record is one posting.
type record struct {
	account, contribution int64
	amount                uint64
	duplicate             bool
}

// source makes the records of a workload by their numbers.
type source struct {
	workload Workload
	keys     Keys
	pcg      *rand.PCG
	rng      *rand.Rand
	zipf     *rand.Zipf
}

func newSource(w Workload, keys Keys) *source {
	s := &source{workload: w, keys: keys, pcg: rand.NewPCG(w.Seed, 0)}
	s.rng = rand.New(s.pcg)
	if w.Distribution == Zipf {
		s.zipf = rand.NewZipf(s.rng, w.Exponent, 1, uint64(keys.accounts()-1))
	}
	return s
}

// record returns the record of that number.
func (s *source) record(n int64) record {
	s.pcg.Seed(s.workload.Seed, uint64(n))
	r := record{amount: s.rng.Uint64N(1000) + 1, contribution: posted + n}
	if r.duplicate = s.rng.Float64() < s.workload.Duplicates; r.duplicate {
		r.contribution = s.rng.Int64N(s.keys.contributions())
	}
	if s.zipf != nil {
		r.account = int64(s.zipf.Uint64())
	} else {
		r.account = s.rng.Int64N(s.keys.accounts())
	}
	return r
}

// appendKey appends the key of that number.
func appendKey(dst []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, measure.Scatter(uint64(n))), uint64(n))
}

// value returns the value of a key: two numbers, and bytes of no meaning that do not compress.
func value(n int64, count, sum uint64) []byte {
	h := measure.Scatter(uint64(n) + 1)
	v := make([]byte, 0, valueBytesMax+8)
	v = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(v, count), sum)
	size := valueBytesMin + int(h%(valueBytesMax-valueBytesMin+1))
	for len(v) < size {
		h = measure.Scatter(h + 0x9e3779b97f4a7c15)
		v = binary.BigEndian.AppendUint64(v, h)
	}
	return v[:size]
}

// book is the ledger over the stores of a task.
type book struct {
	task                    *state.Task
	balances, contributions state.Bytes
	key                     []byte
	// posted counts the records that were no duplicates, amount is what they add up to.
	posted, amount uint64
}

func newBook(t *state.Task) *book {
	return &book{task: t, balances: t.Store(balances), contributions: t.Store(contributions), key: make([]byte, 0, keyBytes)}
}

var errState = errors.New("the state is not what it should be")

// post processes one record.
func (b *book) post(r record) error {
	b.task.Mark()
	key := appendKey(b.key, r.contribution)
	_, present, err := b.contributions.Get(key)
	if err != nil {
		return err
	}
	if present != r.duplicate {
		return fmt.Errorf("%w: contribution %d is there: %t", errState, r.contribution, present)
	}
	if present {
		return nil
	}
	if err := b.contributions.Put(key, value(r.contribution, 1, r.amount)); err != nil {
		return err
	}
	key = appendKey(b.key, r.account)
	old, ok, err := b.balances.Get(key)
	if err != nil {
		return err
	}
	if !ok || len(old) < valueBytesMin {
		return fmt.Errorf("%w: account %d is there: %t, with %d bytes", errState, r.account, ok, len(old))
	}
	balance := append([]byte(nil), old...)
	binary.BigEndian.PutUint64(balance, binary.BigEndian.Uint64(old)+1)
	binary.BigEndian.PutUint64(balance[8:], binary.BigEndian.Uint64(old[8:])+r.amount)
	b.posted++
	b.amount += r.amount
	return b.balances.Put(key, balance)
}

// audit adds all balances up and compares them with what was posted.
func (b *book) audit(keys Keys) error {
	accounts, count, sum := int64(0), uint64(0), uint64(0)
	for e, err := range b.balances.Scan(state.Range{}) {
		if err != nil {
			return err
		}
		accounts++
		count += binary.BigEndian.Uint64(e.Value)
		sum += binary.BigEndian.Uint64(e.Value[8:])
	}
	if accounts != keys.accounts() || count != b.posted || sum != b.amount {
		return fmt.Errorf("%w: %d accounts with %d postings of %d together, and there should be %d, %d and %d", errState, accounts, count,
			sum, keys.accounts(), b.posted, b.amount)
	}
	return nil
}
