package produce

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kerr"
)

// TestJudge shows what every error code of Kafka means for a batch. A code that the client library
// learns of appears here as a difference.
func TestJudge(t *testing.T) {
	datadriven.RunTest(t, "testdata/answers", func(*testing.T, *datadriven.TestData) string {
		groups := map[verdict][]string{judge(nil): {"(success)"}}
		for code := int16(-1); code < 1000; code++ {
			var known *kerr.Error
			if errors.As(kerr.ErrorForCode(code), &known) && known.Code == code {
				v := judge(fmt.Errorf("wrapped: %w", known))
				groups[v] = append(groups[v], known.Message)
			}
		}
		var out strings.Builder
		for v := accepted; v <= failed; v++ {
			slices.Sort(groups[v])
			fmt.Fprintf(&out, "%s:\n", v)
			for _, name := range groups[v] {
				fmt.Fprintf(&out, "  %s\n", name)
			}
		}
		return out.String()
	})
}

// TestAdvance: sequence numbers begin again at 0 behind the largest one, as brokers count them.
func TestAdvance(t *testing.T) {
	const most = 1<<31 - 1
	for _, tc := range []struct{ from, n, want int32 }{{0, 5, 5}, {most - 5, 5, most}, {most - 5, 6, 0}, {most, 1, 0}, {most - 1, 10, 8}} {
		if got := advance(tc.from, tc.n); got != tc.want {
			t.Errorf("%d after %d is %d, want %d", tc.n, tc.from, got, tc.want)
		}
	}
}

// TestEarlyPause: the pause while markers are written grows from 5 to 100 ms.
func TestEarlyPause(t *testing.T) {
	var got []time.Duration
	for n := range 8 {
		got = append(got, earlyPause(n)/time.Millisecond)
	}
	if want := []time.Duration{5, 5, 10, 20, 40, 80, 100, 100}; !slices.Equal(got, want) {
		t.Errorf("the pauses are %v ms, want %v", got, want)
	}
}
