package workload

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/onceward/onceward/bench/measure"
)

// Distribution says which accounts events are about.
type Distribution string

// The distributions.
const (
	// Uniform gives every account as many events.
	Uniform Distribution = "uniform"
	// Zipf gives few accounts most of the events: the n-th of them has about n^-1.1 times those of
	// the first.
	Zipf Distribution = "zipf"
)

// zipfExponent is about that of word frequencies and of requests for web pages. Go's generator
// takes only more than 1.
const zipfExponent = 1.1

// duplicateWindow is how many events back a duplicate may reach.
const duplicateWindow = 4096

// amountMax is the largest amount that is generated. The least is 1.
const amountMax = 10_000

// Input says which events an input has. The same Input makes the same events, but for their clocks.
type Input struct {
	Seed uint64 `json:"seed"`
	// Keys is the number of accounts, Distribution how events are spread over them. The flights
	// have their own. Of pairs, Keys is how many records apart the two of a pair are at most.
	Keys         int64        `json:"keys,omitempty"`
	Distribution Distribution `json:"distribution,omitempty"`
	// Duplicates is the share of records that repeat an earlier one, from 0 to 0.5.
	Duplicates float64 `json:"duplicates"`
	// Flights is the file with the flights, for the workload of that name.
	Flights string `json:"-"`
}

// Source makes the records of an input, one after the other. It belongs to one goroutine.
type Source interface {
	// Next makes the next record. A new event has the clock, in nanoseconds since the epoch; clocks
	// have to grow. The memory is the caller's.
	Next(clock int64) Record
}

// generator is the source of events.
type generator struct {
	duplicates float64
	rng        *rand.Rand
	// event makes the event with that number, but for its clock.
	event func(n uint64) Event
	// made is the number of events, without duplicates; recent are the last of them.
	made   uint64
	recent []Event
}

// NewSource returns the source of a workload's input, at its beginning.
func (w Workload) NewSource(in Input) (Source, error) {
	if w.query != nil {
		return newAuctions(in), nil
	}
	if w.sided != nil {
		return newSidedSource(in, w.sided.content)
	}
	return w.newGenerator(in)
}

func (w Workload) newGenerator(in Input) (*generator, error) {
	if in.Duplicates < 0 || in.Duplicates > 0.5 {
		return nil, errors.New("the share of duplicates is not between 0 and 0.5")
	}
	g := &generator{duplicates: in.Duplicates, rng: rand.New(rand.NewPCG(in.Seed, 0))}
	if w.Data == Flights {
		rows, err := readFlights(in.Flights)
		if err != nil {
			return nil, err
		}
		g.event = func(n uint64) Event { return rows.event(n, g.rng) }
		return g, nil
	}
	account, err := in.accounts(g.rng)
	if err != nil {
		return nil, err
	}
	g.event = func(n uint64) Event {
		return Event{
			// Scatter is a permutation, so no two events have one id; that ids do not ascend is the
			// hard case for a store.
			Account: account(), Counterparty: account(), ID: idOf(uint16(in.Seed), measure.Scatter(in.Seed<<48+n)),
			Amount: 1 + g.rng.Int64N(amountMax), Padding: g.rng.Uint64(),
		}
	}
	return g, nil
}

// accounts returns what draws an account. The frequent ones of Zipf are spread over the numbers,
// and so over partitions and tables.
func (in Input) accounts(rng *rand.Rand) (func() Account, error) {
	if in.Keys < 1 {
		return nil, fmt.Errorf("%d is no number of keys; there is at least 1", in.Keys)
	}
	keys := uint64(in.Keys)
	switch in.Distribution {
	case Uniform:
		return func() Account { return AccountOf(rng.Uint64N(keys)) }, nil
	case Zipf:
		ranks := rand.NewZipf(rng, zipfExponent, 1, keys-1)
		return func() Account { return AccountOf(measure.Scatter(ranks.Uint64()) % keys) }, nil
	}
	return nil, fmt.Errorf("%q is no distribution; there are %s and %s", in.Distribution, Uniform, Zipf)
}

// Next is that of a [Source].
func (g *generator) Next(clock int64) Record {
	e := g.next(clock)
	buf := e.Append(append(make([]byte, 0, KeyBytes+ValueBytes), e.Account[:]...))
	return Record{Key: buf[:KeyBytes:KeyBytes], Value: buf[KeyBytes:], Timestamp: e.Time().UnixMilli()}
}

// next makes the next event. A new one has the clock; a duplicate is as it was, with the clock of
// its event.
func (g *generator) next(clock int64) Event {
	if len(g.recent) > 0 && g.duplicates > 0 && g.rng.Float64() < g.duplicates {
		return g.recent[g.rng.IntN(len(g.recent))]
	}
	e := g.event(g.made)
	e.Clock = clock
	if len(g.recent) < duplicateWindow {
		g.recent = append(g.recent, e)
	} else {
		g.recent[g.made%duplicateWindow] = e
	}
	g.made++
	return e
}
