package simulation

import (
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/check"
	"github.com/onceward/onceward/e2e/testapp"
	"github.com/onceward/onceward/topology"
)

// plain is the part of a subject that follows from its topology. Package check compares the bytes
// of its records and of its stores; what they mean is for the subject's own judgement.
type plain struct {
	name string
	t    *topology.Topology

	mu sync.Mutex
	// acked counts the acknowledged inputs by topic, failed says that others may be there as well.
	acked  map[string]int
	failed bool
}

func newPlain(name string, t *topology.Topology) plain {
	return plain{name: name, t: t, acked: map[string]int{}}
}

func (p *plain) Topology() *topology.Topology { return p.t }

func (p *plain) UserTopics() []string { return p.t.Topics() }

func (p *plain) Sources() []string {
	var topics []string
	for _, sub := range p.t.Subtopologies() {
		for _, source := range sub.Sources {
			topics = append(topics, source.Topic)
		}
	}
	return topics
}

func (p *plain) Topics() map[string]testapp.Kind {
	topics := map[string]testapp.Kind{}
	for _, topic := range append(p.t.Topics(), p.t.InternalTopics()...) {
		topics[topic] = testapp.Changelog
	}
	return topics
}

func (p *plain) Spec() check.Spec {
	spec := check.Spec{OpenMax: openMax}
	for _, sub := range p.t.Subtopologies() {
		for _, store := range sub.Stores {
			if store.ChangelogTopic != "" {
				spec.Stores = append(spec.Stores, check.Store{Name: store.Name, Changelog: store.ChangelogTopic, Opaque: true})
			}
		}
	}
	return spec
}

func (p *plain) Dump(history *testapp.Recorder, stateDir, source string) (int, error) {
	return testapp.DumpStores(history, p.t, stateDir, source, nil)
}

// send produces records, and counts those that are acknowledged.
func (p *plain) send(f *Feed, records []*kgo.Record, inflight *sync.WaitGroup) error {
	if f.AbortShare > 0 {
		return fmt.Errorf("%s does not abort its inputs", p.name)
	}
	for _, r := range records {
		inflight.Add(1)
		f.Client.Produce(f.Context, r, func(r *kgo.Record, err error) {
			defer inflight.Done()
			p.mu.Lock()
			defer p.mu.Unlock()
			if err != nil {
				p.failed = true
				return
			}
			p.acked[r.Topic]++
		})
	}
	return nil
}

// judgeInputs looks whether the topics have the inputs that were acknowledged.
func (p *plain) judgeInputs(log map[string][][]*kgo.Record, topics ...string) (wrong []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, topic := range topics {
		n := 0
		for _, records := range log[topic] {
			n += len(records)
		}
		switch acked := p.acked[topic]; {
		case n == 0:
			wrong = append(wrong, fmt.Sprintf("%s: %s is empty, so nothing is judged", p.name, topic))
		case n < acked, n > acked && !p.failed:
			wrong = append(wrong, fmt.Sprintf("%s: %s has %d records, %d were acknowledged", p.name, topic, n, acked))
		}
	}
	return wrong
}
