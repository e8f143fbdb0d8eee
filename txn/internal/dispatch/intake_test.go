package dispatch

import "testing"

// TestIntake: few partitions have all that is configured, many have a share of a sum, and one of
// many has all while the others hold little.
func TestIntake(t *testing.T) {
	const queueMax = 4 << 20
	for _, c := range []struct {
		partitions               int
		held, high, low, journal int64
	}{
		{0, 0, 4 << 20, 2 << 20, 1 << 20},
		{4, 16 << 20, 4 << 20, 2 << 20, 1 << 20},
		{16, 64 << 20, 4 << 20, 2 << 20, 1 << 20},
		{64, 8 << 20, 4 << 20, 2 << 20, 256 << 10},
		{32, 64 << 20, 2 << 20, 1 << 20, 512 << 10},
		{64, 64 << 20, 1 << 20, 512 << 10, 256 << 10},
		{100_000, 64 << 20, 64 << 10, 32 << 10, 16 << 10},
	} {
		i := intake{queueBytesMax: queueMax}
		i.divide(c.partitions)
		i.held.Store(c.held)
		if i.high() != c.high || i.low() != c.low || i.journal() != c.journal {
			t.Errorf("%d partitions that hold %d: high %d, low %d, journal %d, want %+v", c.partitions, c.held, i.high(), i.low(), i.journal(), c)
		}
		if i.journal() > i.low() {
			t.Errorf("%d partitions that hold %d: a journal of %d is held back, and nothing is fetched above %d", c.partitions, c.held, i.journal(), i.low())
		}
	}
}
