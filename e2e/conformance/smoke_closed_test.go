package conformance

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
)

// checkWindows compares the final results of the windows of two seconds with sums over the inputs.
// Kafka's verifier only sees whether one of them is there twice.
func (s *smokeScene) checkWindows(ctx context.Context) error {
	inputs, err := s.cluster.ReadAll(ctx, generatedTopic)
	if err != nil {
		return err
	}
	want := map[string]int32{}
	for _, partition := range inputs {
		for _, r := range partition {
			if string(r.Key) == "flush" {
				continue
			}
			second := r.Timestamp.Unix()
			for _, start := range []int64{second - 1, second} {
				want[fmt.Sprintf("[%s@%d/%d]", r.Key, start*1000, (start+2)*1000)] += int32(binary.BigEndian.Uint32(r.Value))
			}
		}
	}
	outputs, err := s.cluster.ReadAll(ctx, "sws-suppressed")
	if err != nil {
		return err
	}
	got := map[string]int32{}
	n := 0
	for _, partition := range outputs {
		for _, r := range partition {
			got[string(r.Key)] = int32(binary.BigEndian.Uint32(r.Value))
			n++
		}
	}
	if n != len(want) || !maps.Equal(got, want) {
		return fmt.Errorf("%d final results of %d windows; %s", n, len(want), windowsDiffer(got, want))
	}
	s.logf("%d windows of two seconds have the right sum", n)
	return nil
}

// windowsDiffer tells the first window that differs, and how many do.
func windowsDiffer(got, want map[string]int32) string {
	text, n := "", 0
	all := maps.Clone(got)
	maps.Copy(all, want)
	for window := range all {
		g, there := got[window]
		w, wanted := want[window]
		if g == w && there == wanted {
			continue
		}
		if n++; n == 1 {
			text = fmt.Sprintf("%s is %d (there: %t), want %d (wanted: %t)", window, g, there, w, wanted)
		}
	}
	return fmt.Sprintf("%d windows differ: %s", n, text)
}
