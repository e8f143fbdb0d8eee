//go:build unix

package processing

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// letterSettings are one instance of an application that dedupes payments by their id and sums them
// per account. An account whose name begins with "closed" fails while a file exists. Every payment
// has the amount 1, so each written sum has to be one more than the one before it of the account.
// That reveals a payment that is lost or has its effect twice, and an effect that is partly undone.
type letterSettings struct {
	Brokers       []string
	Application   string
	Instance      string
	StateDir      string
	In, Out, Dead string
	// ClosedFile exists while the accounts are closed.
	ClosedFile string
	// Action is what happens to a payment to a closed account: topology.DeadLetter, Park or Delay.
	Action topology.Action

	// tried is told of every attempt that failed, in tests within one process.
	tried func()
}

// letterPause is how long a payment that was parked or delayed waits. It is no divisor of the 20 ms
// between two polls of a test: timers on virtual time are exact, and kills between two polls would
// always meet the same phase of the pause.
const letterPause = 17 * time.Millisecond

// Config returns the configuration. No test waits for its timeouts: the next incarnation of a
// killed one has the same identity.
func (s letterSettings) Config() txn.Config {
	return txn.Config{
		Brokers: s.Brokers, Application: s.Application, Instance: s.Instance, StateDir: s.StateDir, Workers: 2,
	}
}

// Topology returns the topology. A value is an id and an amount.
func (s letterSettings) Topology() (*topology.Topology, error) {
	policy, options := topology.Policy{Action: s.Action}, []topology.SourceOption(nil)
	switch s.Action {
	case topology.Park:
		policy.Backoff, policy.BackoffMax = letterPause, letterPause
		options = append(options, topology.ParkKeys())
	case topology.Delay:
		policy.Attempts, policy.Then = 1_000_000, topology.Stop
		options = append(options, topology.RetryTopics(letterPause, 10*letterPause))
	default: // the policy is the action alone
	}
	b := topology.NewBuilder("payments", topology.DeadLetters(s.Dead), topology.OnError(topology.Transient, policy))
	in := topology.From(b, topology.Topic(s.In, schemas.String(), schemas.String()), options...)
	once := inbox.Dedupe(in, "inbox", func(r topology.Record[string, string]) (string, error) {
		id, _, _ := strings.Cut(r.Value, " ")
		return id, nil
	}, inbox.Forever())
	sums := topology.KeyValueStore("sums", schemas.String(), schemas.Int64())
	summed := topology.Process(once.Accepted(), "sum", sums, sumPayment)
	// Behind the stores, so that what a failed record has written shows if it stays.
	summed.Peek("accounts", s.open).Into(topology.Topic(s.Out, schemas.String(), schemas.String()))
	return b.Build()
}

// open fails for accounts that are closed.
func (s letterSettings) open(r topology.Record[string, string]) error {
	if !strings.HasPrefix(r.Key, "closed") {
		return nil
	}
	_, err := os.Stat(s.ClosedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if s.tried != nil {
		s.tried()
	}
	return topology.Fail(topology.Transient, schemas.Reason("the account is closed"))
}

// sumPayment adds a payment up, and passes its id and the sum on.
func sumPayment(
	c *topology.Context, rows state.KeyValue[string, int64], r topology.Record[string, string],
	emit topology.Emit[string, string],
) error {
	id, text, _ := strings.Cut(r.Value, " ")
	amount, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return topology.Fail(topology.Validation, schemas.Reason("the amount is no number"))
	}
	n, _, err := rows.Get(r.Key)
	if err != nil {
		return err
	}
	if err := rows.Put(r.Key, n+amount); err != nil {
		return err
	}
	r.Value = fmt.Sprintf("%s %d", id, n+amount)
	return emit(c, r)
}
