package dispatch

import (
	"math/rand/v2"
	"testing"
)

// TestPauses: whatever the order of reasons, a partition is fetched exactly while its set is empty,
// and the client's switch is worked only when that changes (protocol rule 10.4).
func TestPauses(t *testing.T) {
	paused := map[int32]bool{}
	p := newPauses(
		func(_ string, partition int32) {
			if paused[partition] {
				t.Fatal("paused twice")
			}
			paused[partition] = true
		},
		func(_ string, partition int32) {
			if !paused[partition] {
				t.Fatal("resumed twice")
			}
			paused[partition] = false
		})
	model := map[int32]map[pauseReason]bool{0: {}, 1: {}}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		partition, why := int32(random.IntN(2)), pauseReason(1<<random.IntN(4))
		switch n := random.IntN(20); {
		case n == 0:
			p.forget("in", partition)
			clear(model[partition])
		case n < 10:
			p.set("in", partition, why)
			model[partition][why] = true
		default:
			p.clear("in", partition, why)
			delete(model[partition], why)
		}
		if want := len(model[partition]) > 0; paused[partition] != want {
			t.Fatalf("paused is %v with the reasons %v", paused[partition], model[partition])
		}
		counts := p.count()
		for why := queueFull; why <= taskHalted; why <<= 1 {
			n := 0
			for _, set := range model {
				if set[why] {
					n++
				}
			}
			if counts[why] != n {
				t.Fatalf("reason %b is counted %d times, want %d", why, counts[why], n)
			}
		}
	}
}
