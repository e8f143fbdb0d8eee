package main

import (
	"testing"
	"time"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

func TestSensors(t *testing.T) {
	top, err := sensors()
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	d := topologytest.Start(t, top, topologytest.Clock(noon))
	in := topologytest.In(d, readings)
	send := func(after time.Duration, sensor string, celsius float64) {
		in.Pipe(sensor, reading{At: noon.Add(after), Celsius: celsius})
	}
	send(10*time.Second, "roof", 20)
	send(70*time.Second, "roof", 30)
	send(50*time.Second, "roof", 22) // late, and within the grace
	send(95*time.Second, "cellar", 12)
	send(40*time.Second, "roof", 99) // too late
	firstMinute := topology.Windowed[string]{Key: "roof", Start: noon.UnixMilli(), End: noon.Add(time.Minute).UnixMilli()}
	topologytest.Out(d, means).Want(topologytest.KV(firstMinute, mean{Readings: 2, Celsius: 21}))
	d.WantCount("mean-per-minute", "late", 1)

	send(6*time.Minute, "cellar", 13)
	topologytest.Out(d, silent).Want() // the roof was silent for 4 minutes and 50 seconds
	send(7*time.Minute, "cellar", 13)
	topologytest.Out(d, silent).Want(topologytest.KV("roof", noon.Add(70*time.Second)))
	send(20*time.Minute, "cellar", 13)
	topologytest.Out(d, silent).Want() // once
}
