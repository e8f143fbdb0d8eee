package check_test

import (
	"fmt"
	"iter"
	"runtime"
	"testing"

	"github.com/onceward/onceward/e2e/check"
)

// BenchmarkRun judges a copy of many inputs and reports the memory that the index takes for each.
func BenchmarkRun(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprintf("inputs=%d", n), func(b *testing.B) {
			s := check.Spec{Input: in, Outputs: []check.Output{{Topic: copied, From: in, Which: check.Deliveries}}}
			for b.Loop() {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				report, err := check.Run(s, func() iter.Seq2[check.Event, error] { return copies(n) })
				runtime.ReadMemStats(&after)
				if err != nil || report.Anomalies() != 0 || report.Inputs != int64(n) {
					b.Fatal(err, report)
				}
				b.ReportMetric(float64(after.HeapSys)/float64(n), "heap-B/input")
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "inputs/s")
		})
	}
}

// copies yields the history of a copy in transactions of 100 records, with a follower.
func copies(n int) iter.Seq2[check.Event, error] {
	return func(yield func(check.Event, error) bool) {
		offset := int64(0)
		for first := 1; first <= n; first += 100 {
			s := &check.Sent{First: uint32(first), Outcome: check.OK}
			source := &check.Records{Reader: check.LogReader, Topic: in, Txn: check.NoTxn}
			txn := check.Txn{Producer: int64(first >> 15), Epoch: int16(first & 0x7fff)}
			out := &check.Records{Reader: check.LogReader, Topic: copied, Txn: txn}
			for id := first; id < first+100; id++ {
				s.Message = append(s.Message, uint32(id))
				source.Offsets, source.IDs = append(source.Offsets, int64(id-1)), append(source.IDs, uint32(id))
				out.Offsets, out.IDs = append(out.Offsets, offset), append(out.IDs, uint32(id))
				offset++
			}
			follower := *out
			follower.Reader = "follower"
			offset++
			for _, e := range []check.Event{
				{Sent: s}, {Read: source}, {Read: out},
				{Marker: &check.Marker{Topic: copied, Offset: offset - 1, Producer: txn.Producer, Commit: true}},
				{Position: &check.Position{Topic: in, Next: int64(first) + 99, Txn: txn}},
				{Marker: &check.Marker{Topic: check.OffsetsTopic, Producer: txn.Producer, Commit: true}},
				{Read: &follower},
			} {
				if !yield(e, nil) {
					return
				}
			}
		}
		yield(check.Event{Quiesced: &struct{}{}}, nil)
	}
}
