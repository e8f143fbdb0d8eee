package topology_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// driven runs a topology of several subtopologies.
type driven struct {
	tb testing.TB
	*topologytest.Driver
}

func newDriven(tb testing.TB, declare func(b *topology.Builder)) *driven {
	tb.Helper()
	b := topology.NewBuilder("tables", topology.DeadLetters("dead"))
	declare(b)
	d, err := topologytest.New(mustBuild(tb, b))
	if err != nil {
		tb.Fatal(err)
	}
	return &driven{tb, d}
}

// pipe sends a record with a time of so many milliseconds; a value of "-" is a null.
func (d *driven) pipe(topic string, ms int64, key, value string) {
	d.tb.Helper()
	var v []byte
	if value != "-" {
		v = []byte(value)
	}
	if err := d.PipeRaw(topic, []byte(key), v, topologytest.At(time.UnixMilli(ms))); err != nil {
		d.tb.Fatal(err)
	}
}

// want compares what has been written to a topic since the last time.
func (d *driven) want(topic string, want ...string) {
	d.tb.Helper()
	raw, err := d.OutputRaw(topic)
	if err != nil {
		d.tb.Fatal(err)
	}
	var got []string
	for _, r := range raw {
		got = append(got, fmt.Sprintf("%s=%s@%d", r.Key, shown(r.Value), r.Timestamp))
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		d.tb.Errorf("%s has %q, want %q", topic, got, want)
	}
}
