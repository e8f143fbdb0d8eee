package main

import (
	"testing"
	"time"

	"github.com/onceward/onceward/topology/topologytest"
)

func TestOrdersMeetTheirPayments(t *testing.T) {
	top, err := settlements()
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) topologytest.PipeOption { return topologytest.At(noon.Add(d)) }
	d := topologytest.Start(t, top, topologytest.Clock(noon))
	topologytest.In(d, customers).Pipe("c1", customer{Name: "Ann"})

	in, paid := topologytest.In(d, orders), topologytest.In(d, payments)
	in.Pipe("1", order{Customer: "c1", Cents: 500}, at(0))
	in.Pipe("2", order{Customer: "c2", Cents: 700}, at(time.Minute))
	in.Pipe("3", order{Customer: "c1", Cents: 900}, at(2*time.Minute))
	paid.Pipe("2", payment{Cents: 700}, at(10*time.Minute))
	paid.Pipe("3", payment{Cents: 800}, at(11*time.Minute))
	topologytest.Out(d, settled).Want(topologytest.KV("2", settlement{Cents: 700, Paid: 700}))
	topologytest.Out(d, unpaid).Want(topologytest.KV("3", settlement{Name: "Ann", Cents: 900, Paid: 800}))

	in.Pipe("4", order{Customer: "c1", Cents: 100}, at(31*time.Minute))
	topologytest.Out(d, unpaid).Want() // the grace of order 1 is not over
	in.Pipe("5", order{Customer: "c1", Cents: 100}, at(31*time.Minute+time.Millisecond))
	topologytest.Out(d, unpaid).Want(topologytest.KV("1", settlement{Name: "Ann", Cents: 500}))
}
