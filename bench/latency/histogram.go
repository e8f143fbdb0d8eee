package latency

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// histogramMax is the largest latency that a histogram holds, and histogramDigits how exact its
	// buckets are. The Summary is exact.
	histogramMax    = time.Hour
	histogramDigits = 3
	// ticksPerHalf is how many lines there are for each halving of the distance to 100 %, as
	// HdrHistogram's own tools write them.
	ticksPerHalf = 5
)

// writeHistogram writes the distribution of latencies as HdrHistogram's percentile text, in
// milliseconds: what its plotter draws, and what other tools' results can be laid over.
func writeHistogram(path string, latencies []time.Duration) (err error) {
	h := hdrhistogram.New(1, histogramMax.Microseconds(), histogramDigits)
	for _, d := range latencies {
		if err := h.RecordValue(min(d, histogramMax).Microseconds()); err != nil {
			return fmt.Errorf("the histogram of latencies: %w", err)
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("the histogram of latencies: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = h.PercentilesPrint(f, ticksPerHalf, float64(time.Millisecond/time.Microsecond))
	return err
}
