package pgoutbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/envelope"
	"github.com/onceward/onceward/processors/postgres/internal/work"
	"github.com/onceward/onceward/topology"
)

// errBrokers: no record of a batch could be published, and the brokers are to blame.
var errBrokers = errors.New("the brokers do not take records")

var errNoAnswer = errors.New("there was no answer")

// publication is a record and the result of sending it.
type publication struct {
	entry  *Entry
	record *kgo.Record
	err    error
}

// sent is the result of sending a batch. An entry in neither of its lists was not sent, or has no
// answer.
type sent struct {
	published, failed []publication
}

// outage says that the failures are those of the brokers: all are transient, and nothing has
// succeeded.
func (s sent) outage() bool {
	return len(s.published) == 0 && len(s.failed) > 0 &&
		!slices.ContainsFunc(s.failed, func(p publication) bool { return !errors.Is(p.err, errBrokers) })
}

// chains returns the entries in runs: one of each aggregate, in its order, and one of each entry
// without an aggregate.
func chains(entries []*Entry, together bool) (all [][]*Entry) {
	of := map[string]int{}
	for _, e := range entries {
		at, known := of[e.Aggregate]
		switch {
		case e.Aggregate == "" || together:
			all = append(all, []*Entry{e})
		case known:
			all[at] = append(all[at], e)
		default:
			of[e.Aggregate] = len(all)
			all = append(all, []*Entry{e})
		}
	}
	return all
}

// publish publishes chains side by side. Of each one record at a time is on its way: it is answered
// before the next one is sent, so that none can pass one that fails. It returns when all are
// answered, or the context ends. When some have been answered, it gives up those whose answer takes
// much longer: a partition that takes nothing does not hold up the others.
func (o *Outbox) publish(ctx context.Context, client *kgo.Client, chains [][]*Entry) (s sent) {
	type answer struct {
		publication
		chain int
	}
	total := 0
	for _, c := range chains {
		total += len(c)
	}
	answers := make(chan answer, total) // has room for all, so that no promise of the client waits
	next := make([]int, len(chains))
	open := 0
	group, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	produce := func(chain int) {
		e := chains[chain][next[chain]]
		next[chain]++
		open++
		sent := time.Now()
		// Not kgo.RecordDeliveryTimeout, which counts from the timestamp of the record.
		limited, cancel := context.WithTimeoutCause(group, o.config.DeliveryTimeout, errNoAnswer)
		client.Produce(limited, recordOf(e), func(r *kgo.Record, err error) {
			if err != nil && errors.Is(context.Cause(limited), errNoAnswer) {
				err = fmt.Errorf("%w within %s: %w", errNoAnswer, time.Since(sent).Round(time.Millisecond), err)
			}
			cancel()
			answers <- answer{publication{e, r, err}, chain}
		})
	}
	began := time.Now()
	for chain := range chains {
		produce(chain)
	}
	quiet := time.NewTimer(o.straggleMax)
	defer quiet.Stop()
	for open > 0 {
		var a answer
		select {
		case a = <-answers:
		case <-quiet.C:
			if len(s.published) > 0 {
				giveUp(errNoAnswer)
			}
			continue
		case <-ctx.Done():
			return s
		}
		open--
		quiet.Reset(o.straggleMax)
		switch {
		case a.err == nil:
			s.published = append(s.published, a.publication)
			o.metrics.publish.Observe(time.Since(a.entry.AppendedAt).Seconds())
			if next[a.chain] < len(chains[a.chain]) && time.Since(began) < batchTimeMax && group.Err() == nil {
				produce(a.chain)
			}
		case ctx.Err() == nil:
			a.err = blame(a.err)
			s.failed = append(s.failed, a.publication)
		}
	}
	return s
}

// recordOf returns the record of an entry. All relays make the same record of an entry.
func recordOf(e *Entry) *kgo.Record {
	r := &kgo.Record{Topic: e.Topic, Key: e.Key, Value: e.Value, Timestamp: e.AppendedAt}
	for _, h := range e.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: envelope.HeaderEventID, Value: []byte(e.ID)})
	if e.Aggregate != "" {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: envelope.HeaderAggregateID, Value: []byte(e.Aggregate)})
	}
	return r
}

// brokerError is an error of the brokers that says nothing about the record.
type brokerError struct{ err error }

func (e *brokerError) Error() string        { return "publish: " + e.err.Error() }
func (e *brokerError) Unwrap() []error      { return []error{errBrokers, e.err} }
func (e *brokerError) Is(target error) bool { return target == errBrokers }

// blame returns the error of a record with its class.
func blame(err error) error {
	for _, refused := range []*kerr.Error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.PolicyViolation} {
		if errors.Is(err, refused) {
			return topology.Fail(topology.Validation, err)
		}
	}
	for _, mistaken := range []*kerr.Error{
		kerr.UnknownTopicOrPartition, kerr.InvalidTopicException, kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed,
	} {
		if errors.Is(err, mistaken) {
			return topology.Fail(topology.Config, err)
		}
	}
	return topology.Fail(topology.Transient, &brokerError{err})
}

// classOf returns the class of an error of blame.
func classOf(err error) topology.Class { return topology.ClassOf(err) }

// reasonOf returns what can be said of an error without a risk that it quotes a record. Those of
// the Kafka client quote none.
func reasonOf(err error) string {
	if answer, ok := errors.AsType[*kerr.Error](err); ok {
		return answer.Message + ": " + answer.Description
	}
	if b, ok := errors.AsType[*brokerError](err); ok {
		return b.Error()
	}
	return work.Reason(err)
}
