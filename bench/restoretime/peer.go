package restoretime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/onceward/onceward/bench/comparison/streams"
)

// wideFetch lets the restore consumer take more at a time than its defaults: 1,000 records and 1
// MiB a partition.
var wideFetch = []string{
	"restore.consumer.max.poll.records=20000", "restore.consumer.max.partition.fetch.bytes=8388608",
	"restore.consumer.receive.buffer.bytes=1048576",
}

// tunings returns what is tried.
func tunings() []streams.Tuning {
	var out []streams.Tuning
	for _, threads := range []int{1, 2, 4} {
		out = append(out, streams.Tuning{Name: fmt.Sprintf("%d threads, defaults", threads), Threads: threads})
	}
	for _, threads := range []int{1, 2, 4} {
		out = append(out, streams.Tuning{Name: fmt.Sprintf("%d threads, wide fetches", threads), Threads: threads, Properties: wideFetch})
	}
	return out
}

// peer is a way to run Kafka Streams.
type peer struct {
	streams.Tuning
	Heap string // as -Xmx has it
}

// restorePeer lets Kafka Streams restore everything into an empty directory.
func (m *measurement) restorePeer(ctx context.Context, p peer, read bool) (_ Restore, _ report, err error) {
	if err := m.cluster.AwaitEmpty(ctx, m.cfg.Name); err != nil {
		return Restore{}, report{}, err
	}
	dir, err := os.MkdirTemp(m.cfg.Dir, "streams-")
	if err != nil {
		return Restore{}, report{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	contents := "skip"
	if read {
		contents = "read"
	}
	ctx, cancel := context.WithTimeoutCause(ctx, runTimeout, errRunTimeout)
	defer cancel()
	cmd, err := m.streams.Command(ctx, streams.Application{
		Class: "StreamsRestore", ID: m.cfg.Name, Brokers: m.cfg.Brokers, Dir: dir, Heap: p.Heap, Tuning: p.Tuning,
	}, append([]string{inputTopic(m.cfg.Name), contents}, stores...)...)
	if err != nil {
		return Restore{}, report{}, err
	}
	return runRestore(ctx, cmd, filepath.Join(m.cfg.Dir, "streams.log"), m.cfg.Data.Records)
}
