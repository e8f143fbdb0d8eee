package processing

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestBrokenLog is the negative control of [Surroundings.Judge]: in the log of a pipeline in memory
// it finds nothing wrong, and every record that is missing or there twice.
func TestBrokenLog(t *testing.T) {
	inMemory(t, func(t *testing.T) {
		m, err := newMemoryRun(Whole)
		if err != nil {
			t.Fatal(err)
		}
		h := newHistory(3, epoch)
		m.history = h
		h.grow(14, "anna", "bert", "carl")
		for _, d := range h.disturb(h.facts, mischief{late: 25, duplicate: 30, conflict: 8, poison: 5}) {
			if err := m.pipe(d); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := m.command(h.command()); err != nil {
				t.Fatal(err)
			}
			if err := m.settle(); err != nil {
				t.Fatal(err)
			}
		}
		log := map[string][][]*kgo.Record{}
		add := func(topic string, partition int32, r *kgo.Record) {
			for range Partitions - len(log[topic]) {
				log[topic] = append(log[topic], nil)
			}
			r.Topic = topic
			log[topic][partition] = append(log[topic][partition], r)
		}
		for _, d := range m.fed {
			add(TopicEvents, d.partition, &kgo.Record{Key: []byte(d.account), Value: []byte(d.value), Timestamp: time.UnixMilli(d.at)})
		}
		for _, c := range m.commands {
			for p := range int32(Partitions) {
				add(TopicCommands, p, &kgo.Record{Value: encode(c)})
			}
		}
		for _, f := range m.findings {
			add(TopicFindings, 0, &kgo.Record{Value: encode(f)})
		}
		for _, topic := range outputs {
			records, err := m.OutputRaw(topic)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				out := &kgo.Record{Key: r.Key, Value: r.Value}
				for _, header := range r.Headers {
					out.Headers = append(out.Headers, kgo.RecordHeader{Key: header.Key, Value: header.Value})
				}
				add(topic, r.Partition, out)
			}
		}
		s := NewSurroundings()
		s.gateway, s.post, s.history = m.gateway, m.post, h
		if err := s.Judge(log); err != nil {
			t.Fatalf("the log is right: %v", err)
		}
		judged := 0
		for topic, partitions := range log {
			if topic == TopicFindings || topic == TopicDoubted || topic == TopicRepairs {
				continue // how often they are there depends on the order of the facts, or on the person
			}
			for p, records := range partitions {
				if len(records) == 0 {
					continue
				}
				judged++
				last := records[len(records)-1]
				for what, damaged := range map[string][]*kgo.Record{
					"the first record is missing": records[1:],
					"the last record is twice":    append(slices.Clone(records), last),
				} {
					partitions[p] = damaged
					if s.Judge(log) == nil {
						t.Errorf("%s[%d]: %s, and nothing is found", topic, p, what)
					}
				}
				partitions[p] = records
			}
		}
		if judged < 20 {
			t.Errorf("only %d partitions have records", judged)
		}
	})
}
