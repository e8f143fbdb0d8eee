package topology_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// Topics of the tests that are scripts.
var (
	leftTopic   = topology.Topic("left", schemas.String(), schemas.String())
	rightTopic  = topology.Topic("right", schemas.String(), schemas.String())
	resultTopic = topology.Topic("result", schemas.String(), schemas.String())
)

// send sends a record with a time of so many milliseconds; a value of "-" is a null, and so is a
// key.
func (k *task) send(topic string, ms int64, key, value string) graph.Verdict {
	k.tb.Helper()
	in := k.input(topic, []byte(key), []byte(value))
	if key == "-" {
		in.Key = nil
	}
	if value == "-" {
		in.Value = nil
	}
	in.Timestamp, in.StreamTime = ms, max(ms, k.streamTime)
	in.StreamTimeBefore = k.streamTime
	v := k.graph.Process(in)
	if v.Action == graph.Accept {
		k.streamTime = max(k.streamTime, v.EventTime)
	}
	return v
}

// script sends records, each written as "topic time key value", and returns what comes of each as
// "key=value@time", one line a record. Values of eight bytes that begin with a zero byte are shown
// as numbers.
func (k *task) script(records ...string) string {
	k.tb.Helper()
	var lines []string
	for _, line := range records {
		var topic, key, value string
		var ms int64
		if _, err := fmt.Sscan(line, &topic, &ms, &key, &value); err != nil {
			k.tb.Fatalf("%q: %v", line, err)
		}
		v := want(k.tb, k.send(topic, ms, key, value), graph.Accept)
		var outputs []string
		for _, out := range v.Outputs {
			outputs = append(outputs, fmt.Sprintf("%s=%s@%d", out.Key, shown(out.Value), out.Timestamp))
		}
		lines = append(lines, strings.Join(outputs, " "))
	}
	return strings.Join(lines, "\n")
}

func shown(value []byte) string {
	if value == nil {
		return "-"
	}
	if n, err := schemas.Int64().Decode(value); err == nil && value[0] == 0 {
		return fmt.Sprint(n)
	}
	return string(value)
}

// wantLines compares the lines of a script.
func wantLines(tb testing.TB, got string, want ...string) {
	tb.Helper()
	if got != strings.Join(want, "\n") {
		tb.Errorf("the outputs are\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// tableTask opens the only task of a topology that declare makes. Every topic has one partition.
func tableTask(tb testing.TB, declare func(b *topology.Builder)) *task {
	tb.Helper()
	b := topology.NewBuilder("tables", topology.DeadLetters("dead"))
	declare(b)
	t := mustBuild(tb, b)
	subs := t.Subtopologies()
	if len(subs) != 1 {
		tb.Fatalf("the topology has %d subtopologies, want one", len(subs))
	}
	config := baseConfig()
	config.Partitions = func(string) int32 { return 1 }
	k := openTask(tb, t, graph.TaskID{Subtopology: subs[0].Name}, config)
	k.streamTime = state.NoTime
	return k
}
