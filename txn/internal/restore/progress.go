package restore

import (
	"sync"
	"time"
)

// Progress is how far the restore of a task is, over all tries, or another reading of a changelog.
// It can be read while that runs. The zero value has not begun.
type Progress struct {
	mu      sync.Mutex
	came    time.Time
	records int64
	bytes   int64
	done    int64 // offsets that are behind
	left    int64
	samples [samplesMax]sample
	taken   int // samples, ever
}

// sample is how many offsets were behind at a time.
type sample struct {
	at   time.Time
	done int64
}

// The rate is that of the last samples, so that it says what happens now: about five seconds.
const (
	samplesMax  = 10
	sampleEvery = 500 * time.Millisecond
)

// Snapshot is what a Progress says at a moment.
type Snapshot struct {
	// Records and Bytes (of keys and values) are what was read of the changelogs.
	Records, Bytes int64
	// Remaining is the distance to the targets in offsets, of which compaction and aborted
	// transactions may have emptied some.
	Remaining int64
	// Rate is how many offsets a second were put behind lately.
	Rate float64
	// Left is how long the rest takes at this rate, 0 if there is no rest or no rate yet.
	Left time.Duration
}

// Read returns how far the restore is.
func (p *Progress) Read(now time.Time) Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Snapshot{Records: p.records, Bytes: p.bytes, Remaining: p.left}
	if p.taken == 0 {
		return s
	}
	oldest := p.samples[max(p.taken-samplesMax, 0)%samplesMax]
	if took := now.Sub(oldest.at); took > 0 {
		s.Rate = float64(p.done-oldest.done) / took.Seconds()
	}
	if s.Rate > 0 {
		s.Left = time.Duration(float64(p.left) / s.Rate * float64(time.Second))
	}
	return s
}

// begin notes when the task came, once, and returns that.
func (p *Progress) begin(now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.came.IsZero() {
		p.came = now
	}
	return p.came
}

// Expect sets what a try has to do.
func (p *Progress) Expect(now time.Time, offsets int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left, p.taken = offsets, 0
	p.sample(now)
}

// Add counts what was read.
func (p *Progress) Add(now time.Time, records, bytes, offsets int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.records += records
	p.bytes += bytes
	p.done += offsets
	p.left -= offsets
	if now.Sub(p.samples[(p.taken+samplesMax-1)%samplesMax].at) >= sampleEvery {
		p.sample(now)
	}
}

// sample takes a sample. The caller holds the lock.
func (p *Progress) sample(now time.Time) {
	p.samples[p.taken%samplesMax] = sample{now, p.done}
	p.taken++
}
