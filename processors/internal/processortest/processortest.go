// Package processortest is what the tests of the processors share: a topology in memory, and short
// ways to say what must have come out of it.
package processortest

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// Driver is a topologytest.Driver whose errors fail the test.
type Driver struct {
	*topologytest.Driver
	tb testing.TB
	// stores are the names of all stores.
	stores []string
}

// deadTopic is the topic of the dead letters.
const deadTopic = "dead"

// New builds what declare declares, as application app with the dead-letter topic dead.
func New(tb testing.TB, declare func(b *topology.Builder), opts ...topologytest.Option) *Driver {
	tb.Helper()
	b := topology.NewBuilder("app", topology.DeadLetters(deadTopic))
	declare(b)
	t, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	d, err := topologytest.New(t, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	var stores []string
	for _, sub := range t.Subtopologies() {
		for _, store := range sub.Stores {
			stores = append(stores, store.Name)
		}
	}
	return &Driver{Driver: d, tb: tb, stores: stores}
}

// Pipe writes a record to a topic. An empty key or value is empty; see PipeNull.
func (d *Driver) Pipe(topic, key, value string, opts ...topologytest.PipeOption) {
	d.tb.Helper()
	if err := d.PipeRaw(topic, []byte(key), []byte(value), opts...); err != nil {
		d.tb.Fatal(err)
	}
}

// PipeNull writes a record with a null value.
func (d *Driver) PipeNull(topic, key string, opts ...topologytest.PipeOption) {
	d.tb.Helper()
	if err := d.PipeRaw(topic, []byte(key), nil, opts...); err != nil {
		d.tb.Fatal(err)
	}
}

// Restart restarts the topology.
func (d *Driver) Restart() {
	d.tb.Helper()
	if err := d.Driver.Restart(); err != nil {
		d.tb.Fatal(err)
	}
}

// Take returns what a topic got since the last time.
func (d *Driver) Take(topic string) []topologytest.Raw {
	d.tb.Helper()
	records, err := d.OutputRaw(topic)
	if err != nil {
		d.tb.Fatal(err)
	}
	return records
}

// Want fails the test unless the topic got records with exactly these values since the last time.
func (d *Driver) Want(topic string, values ...string) []topologytest.Raw {
	d.tb.Helper()
	records := d.Take(topic)
	var got []string
	for _, r := range records {
		got = append(got, string(r.Value))
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", values) {
		d.tb.Fatalf("topic %s got %q, want %q", topic, got, values)
	}
	return records
}

// WantDeadLetter fails the test unless exactly one record has died since the last time, at that
// node, with that class and message.
func (d *Driver) WantDeadLetter(node string, class topology.Class, message string) topologytest.DeadLetter {
	d.tb.Helper()
	letters, err := d.DeadLetters()
	if err != nil {
		d.tb.Fatal(err)
	}
	if len(letters) != 1 {
		d.tb.Fatalf("there are %d dead letters, want 1", len(letters))
	}
	if info := letters[0].Info; info.Class != class || info.Message != message || info.Node != node {
		d.tb.Fatalf("the dead letter is of class %s from node %s: %s", info.Class, info.Node, info.Message)
	}
	return letters[0]
}

// WantCounts compares all counts, written as node.outcome=n and sorted.
func (d *Driver) WantCounts(counts string) {
	d.tb.Helper()
	var got []string
	for _, c := range d.Counts() {
		got = append(got, fmt.Sprintf("%s.%s=%d", c.Node, c.Outcome, c.N))
	}
	if s := strings.Join(got, " "); s != counts {
		d.tb.Fatalf("the counts are %q, want %q", s, counts)
	}
}

// Rows returns what a store holds in one partition, as bytes.
func (d *Driver) Rows(store string, partition int32) map[string]string {
	d.tb.Helper()
	content := map[string]string{}
	for pair, err := range d.raw(store, partition).All() {
		if err != nil {
			d.tb.Fatal(err)
		}
		content[string(pair.Key)] = string(pair.Value)
	}
	return content
}

// SetRow writes a row as bytes, into partition 0.
func (d *Driver) SetRow(store, key, value string) {
	d.tb.Helper()
	if err := d.raw(store, 0).Put([]byte(key), []byte(value)); err != nil {
		d.tb.Fatal(err)
	}
}

// DeleteRow deletes a row of partition 0.
func (d *Driver) DeleteRow(store, key string) {
	d.tb.Helper()
	if err := d.raw(store, 0).Delete([]byte(key)); err != nil {
		d.tb.Fatal(err)
	}
}

// raw opens a store without its codecs.
func (d *Driver) raw(store string, partition int32) state.KeyValue[[]byte, []byte] {
	d.tb.Helper()
	kv, err := topologytest.Store(d.Driver, topology.KeyValueStore(store, schemas.Bytes(), schemas.Bytes()), partition)
	if err != nil {
		d.tb.Fatal(err)
	}
	return kv
}

// WantStores fails unless the first subtopology has these stores: name, changelog, layout, and the
// formats of keys and values, with blanks between them.
func WantStores(tb testing.TB, t *topology.Topology, stores ...string) {
	tb.Helper()
	var got []string
	for _, s := range t.Subtopologies()[0].Stores {
		got = append(got, fmt.Sprint(s.Name, " ", s.ChangelogTopic, " ", s.Layout, " ", s.KeyFormat, " ", s.ValueFormat))
	}
	if !slices.Equal(got, stores) {
		tb.Errorf("the stores are %q, want %q", got, stores)
	}
}

// WantMistakes builds what declare declares and expects mistakes with these texts in them, all of
// them at the line of the test that declare returns.
func WantMistakes(tb testing.TB, declare func(b *topology.Builder) int, texts ...string) {
	tb.Helper()
	b := topology.NewBuilder("app", topology.DeadLetters("dead"))
	line := declare(b)
	_, err := b.Build()
	var mistakes *topology.BuildError
	if !errors.As(err, &mistakes) {
		tb.Fatalf("Build returned %v", err)
	}
	if len(mistakes.Mistakes) != len(texts) {
		tb.Fatalf("there are %d mistakes, want %d: %v", len(mistakes.Mistakes), len(texts), err)
	}
	for i, m := range mistakes.Mistakes {
		if !strings.Contains(m.Err.Error(), texts[i]) {
			tb.Errorf("mistake %d is %q, want %q in it", i, m.Err, texts[i])
		}
		if !strings.HasSuffix(filepath.Base(m.File), "_test.go") || m.Line != line {
			tb.Errorf("mistake %d is at %s:%d, want line %d of the test", i, m.File, m.Line, line)
		}
	}
}

// Above returns the number of the line before that of the call.
func Above() int {
	_, _, line, _ := runtime.Caller(1)
	return line - 1
}

// WantSilence fails the test if the failure of a record quotes it: if err contains the canary, or a
// header of the dead letters does, except the record's own header with the key own. It also fails
// if there is no failure.
func WantSilence(tb testing.TB, err error, letters []topologytest.Raw, own, canary string) {
	tb.Helper()
	if err == nil && len(letters) == 0 {
		tb.Fatal("nothing has failed")
	}
	if err != nil && strings.Contains(err.Error(), canary) {
		tb.Errorf("the error quotes the record: %v", err)
	}
	for _, letter := range letters {
		for _, h := range letter.Headers {
			if h.Key != own && strings.Contains(h.Key+string(h.Value), canary) {
				tb.Errorf("header %s quotes the record: %s", h.Key, h.Value)
			}
		}
	}
}
