package runtime_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/proxy"
	"github.com/onceward/onceward/e2e/testapp"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// TestLargeMetadata: rule 4.2. The positions of a task with very many inputs are longer than what
// the broker takes as the metadata of an offset (TestMetadataLimit), so they are a record that the
// metadata names. A commit whose answer is lost is resolved by it, and a lost state directory is
// restored to it.
func TestLargeMetadata(t *testing.T) {
	t.Parallel()
	cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) {
		e := newAppScene(t, c)
		m := newManyInputs(e)
		p := e.throughProxy(func(*txn.Config) {})
		r := e.start(m.topology)
		m.feed(200)
		e.until(r, 200)
		lost := p.Add(proxy.Match{Key: proxy.KeyEndTxn, Direction: proxy.ToClient}, proxy.Drop())
		settling := p.Add(proxy.Match{Key: proxy.KeyInitProducerID, Direction: proxy.ToBroker}, proxy.Pass())
		m.feed(100)
		if err := settling.AwaitMatched(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		lost.Lift()
		e.until(r, 300)
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
		m.checkReference(300)

		if err := os.RemoveAll(e.stateDir); err != nil {
			t.Fatal(err)
		}
		r = e.start(m.topology)
		m.feed(100)
		e.until(r, 100)
		restored := r.Status().Tasks[0].Restored
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
		if restored == 0 {
			t.Error("nothing was restored")
		}
		for k, n := range testapp.LastCounts(t, e.Records(t, e.out)) {
			if n != 40 {
				t.Errorf("%s was counted to %d, want 40", k, n)
			}
		}
		m.checkReference(400)
		e.checkClosed()
	})
}

// manyInputs is an application with one task, whose inputs are inputTopics topics of one partition.
type manyInputs struct {
	*appScene
	inputs   []string
	topology *topology.Topology
	fed      int
}

const (
	// inputTopics makes positions of more than metadataLimit characters: an input without records
	// takes 20, one with records 14.
	inputTopics = 230
	fedTopics   = 10
	// metadataLimit is offset.metadata.max.bytes, the broker's default.
	metadataLimit = 4096
)

func newManyInputs(e *appScene) *manyInputs {
	e.t.Helper()
	m := &manyInputs{appScene: e}
	b := topology.NewBuilder("merging")
	var streams []topology.Stream[string, string]
	for i := range inputTopics {
		topic := fmt.Sprintf("%s-%03d", e.in, i)
		m.inputs = append(m.inputs, topic)
		streams = append(streams, topology.From(b, topology.Topic(topic, schemas.String(), schemas.String())))
	}
	counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
	topology.Process(streams[0].Merge("all", streams[1:]...), "count", counts, countRecord).
		Into(topology.Topic(e.out, schemas.String(), schemas.Int64()))
	m.topology = e.build(b)
	e.CreateTopics(e.t, 1, m.inputs...)
	return m
}

// feed writes n records, a tenth of them to each of the topics that are fed, with a key of its own.
func (m *manyInputs) feed(n int) {
	m.t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		of := (m.fed + i) % fedTopics
		records[i] = &kgo.Record{Topic: m.inputs[of], Key: fmt.Append(nil, "k", of), Value: []byte("v")}
	}
	m.fed += n
	if err := m.producer.ProduceSync(m.t.Context(), records...).FirstErr(); err != nil {
		m.t.Fatal(err)
	}
}

// checkReference asserts that n records of input are committed, and that the positions are a record
// as they would not fit.
func (m *manyInputs) checkReference(n int64) {
	m.t.Helper()
	commits, err := m.CommittedOffsets(m.t.Context(), m.application, m.inputs...)
	if err != nil {
		m.t.Fatal(err)
	}
	var committed int64
	for _, of := range commits {
		committed += max(of[0].Offset, 0)
	}
	if committed != n {
		m.t.Errorf("%d records of input are committed, want %d", committed, n)
	}
	metadata := commits[m.inputs[0]][0].Metadata
	if !strings.HasPrefix(metadata, "ow1@") || len(metadata) > 60 {
		m.t.Errorf("the metadata is %q, want a short reference", metadata)
	}
	blobs := 0
	for _, r := range m.Records(m.t, m.application+"-rounds") {
		if !strings.HasPrefix(string(r.Key), "blob ") {
			continue
		}
		blobs++
		if len(r.Value) <= metadataLimit {
			m.t.Errorf("the positions have %d characters and would have fitted: nothing is tested", len(r.Value))
		}
	}
	if blobs == 0 {
		m.t.Error("there are no positions in the rounds topic")
	}
}
