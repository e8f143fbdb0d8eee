package latency

import (
	"errors"

	"github.com/onceward/onceward/bench/workload"
	"github.com/onceward/onceward/topology"
)

// accounts is the number of keys; events go round through them, so that every partition has one as
// often.
const accounts = 10_000

// WorkloadDefault is the workload that is measured if none is named: dedupe by event id, then a
// posting per account.
const WorkloadDefault = "ledger"

// encode returns key and value of an event. Its clock is when it is due, and names the event in the
// output.
func encode(s Schedule, event uint64) (key, value []byte) {
	account := workload.AccountOf(event % accounts)
	e := workload.Event{
		Account: account, Counterparty: account, ID: workload.EventID(event), Amount: amount(event), Clock: s.Due(event).UnixNano(),
		Padding: event,
	}
	buf := e.Append(append(make([]byte, 0, workload.KeyBytes+workload.ValueBytes), account[:]...))
	return buf[:workload.KeyBytes:workload.KeyBytes], buf[workload.KeyBytes:]
}

// amount is what an event adds to the balance of its account.
func amount(event uint64) int64 { return int64(event % 1000) }

var errNotOurs = errors.New("the output does not name an event of this measurement")

// eventOf returns which event led to an output.
func eventOf(s Schedule, output []byte) (uint64, error) {
	clock, err := workload.Clock(output)
	if err != nil {
		return 0, err
	}
	event, ok := s.Event(clock)
	if !ok {
		return 0, errNotOurs
	}
	return event, nil
}

// findWorkload returns a workload whose outputs name their events.
func findWorkload(name string) (workload.Workload, error) {
	if name == "" {
		name = WorkloadDefault
	}
	w, err := workload.Find(name)
	switch {
	case err != nil:
	case !w.HasClock || w.Shuffles:
		err = errors.New("the outputs of workload " + name + " do not say which event led to them; take pass or ledger")
	case w.Evidence:
		err = errors.New("workload " + name + " writes evidence, and there is no topic for it here; take pass or ledger")
	}
	return w, err
}

// Topology returns the application over the topics.
func Topology(application, name string, topics Topics) (*topology.Topology, error) {
	w, err := findWorkload(name)
	if err != nil {
		return nil, err
	}
	return w.Topology(application, workload.Topics{In: topics.In, Out: topics.Out, Dead: topics.Dead})
}
