package main

import (
	"testing"

	"github.com/onceward/onceward/topology/topologytest"
)

func TestWordsAreCountedAcrossLines(t *testing.T) {
	top, err := wordCount()
	if err != nil {
		t.Fatal(err)
	}
	d := topologytest.Start(t, top)
	in, out := topologytest.In(d, lines), topologytest.Out(d, counts)
	in.Pipe("", "To be or not")
	in.Pipe("", "to be")
	out.Want(topologytest.KV("to", int64(1)), topologytest.KV("be", int64(1)), topologytest.KV("or", int64(1)),
		topologytest.KV("not", int64(1)), topologytest.KV("to", int64(2)), topologytest.KV("be", int64(2)))
}
