package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

var walkSeed = flag.Uint64("walk.seed", 0, "run one random walk with this seed and print its transcript")

// walker drives a model by chance. Everything it does follows from its seed.
type walker struct {
	m   *model
	rng *rand.Rand
	// faults is the share of bad answers in percent, world that of faults around the worker in a
	// thousand, and pace how many percent of the acts answer something: a slow broker leaves more
	// time for the back round.
	faults, world, pace int
	// slow is a kind of effect that takes its time in this walk, so that everything else overtakes
	// it.
	slow   EffectKind
	lines  []string
	record bool
}

func newWalker(step stepFunc, seed uint64) *walker {
	rng := rand.New(rand.NewPCG(seed, 0x6f6e6365))
	w := &walker{rng: rng}
	w.faults, w.world = []int{0, 5, 25, 60}[rng.IntN(4)], []int{0, 10, 60, 200}[rng.IntN(4)]
	w.pace, w.slow = []int{8, 25, 50}[rng.IntN(3)], EffectKind(rng.IntN(int(Fail)+1))
	w.m = newModel(step, 1+rng.IntN(3), 120+rng.IntN(200), 1+rng.Uint64N(4))
	w.m.observe = w.note
	return w
}

// note keeps the transcript.
func (w *walker) note(_ State, e Event, after State, effects []Effect) {
	if w.record {
		line := fmt.Sprintf("%s %d -> [%s] %s", e.Kind, e.Round, after, drawEffects(effects))
		w.lines = append(w.lines, line)
	}
}

func (w *walker) hash() string {
	sum := sha256.Sum256([]byte(strings.Join(w.lines, "\n") + w.m.draw()))
	return hex.EncodeToString(sum[:])
}

// run walks until the machine took that many events or a rule is broken, and then drains.
func (w *walker) run(events int) error {
	for idle := 0; w.m.steps < events && w.m.err == nil && idle < 200; idle++ {
		before := w.m.steps
		if err := w.act(); err != nil && !errors.Is(err, errNotNow) {
			return err
		}
		if w.m.steps != before {
			idle = 0
		}
	}
	w.m.drain()
	return w.m.verdict()
}

// act does one thing that may be possible.
func (w *walker) act() error {
	m, rng := w.m, w.rng
	if m.stopped != "" {
		m.restart()
		return nil
	}
	if rng.IntN(1000) < w.world {
		return w.disturb()
	}
	if len(m.ops) > 0 && rng.IntN(100) < w.pace {
		o := m.ops[rng.IntN(len(m.ops))]
		if o.kind == w.slow && rng.IntN(10) > 0 {
			return nil
		}
		if rng.IntN(100) < w.faults {
			return m.answer(w.bad(o))
		}
		return m.answer(m.good(o))
	}
	switch p := rng.IntN(100); {
	case p < 40:
		return m.join(rng.IntN(len(m.tasks)), 1+rng.IntN(3))
	case p < 58:
		return m.fill()
	case p < 80:
		return m.dueNow()
	case p < 90:
		return m.assign(rng.IntN(len(m.tasks)))
	default:
		return w.deliver()
	}
}

// disturb is what the world does to a worker.
func (w *walker) disturb() error {
	m, rng := w.m, w.rng
	switch p := rng.IntN(100); {
	case p < 45:
		task := rng.IntN(len(m.tasks))
		if r := m.back(); r != nil && rng.IntN(4) > 0 {
			task = r.journal[rng.IntN(len(r.journal))].task // the interesting ones
		}
		return m.drop(task)
	case p < 58:
		return m.expire(m.broker.producers[rng.IntN(2)].round)
	case p < 90:
		return m.takeOver(rng.IntN(4))
	default:
		m.restart() // kill -9
		return nil
	}
}

func (w *walker) deliver() error {
	p := &w.m.broker.producers[w.rng.IntN(2)]
	if p.late != nil {
		w.m.broker.deliverLate(p)
		return nil
	}
	return w.m.deliver(p.round, 1+w.rng.IntN(3))
}

// bad draws one of the bad answers and the truth behind it.
func (w *walker) bad(o op) reply {
	a := reply{round: o.round, reached: w.rng.IntN(4), truth: truthOpen}
	kinds := answers[o.kind]
	a.kind = kinds[w.rng.IntN(len(kinds))]
	switch a.kind {
	case CommitUnknown:
		a.truth = []truth{truthCommitted, truthAborted, truthOpen, truthLate}[w.rng.IntN(4)]
	case AbortUnknown, ProducerLost:
		a.truth = []truth{truthAborted, truthOpen}[w.rng.IntN(2)]
	case ApplyFailed:
		if w.rng.IntN(2) > 0 {
			a.kind = Applied
		}
	case FoundOurs, FoundPrevious, FoundOther, FoundMixed:
		return w.m.good(o)
	}
	return a
}

// walkEvents is how many events TestWalks gives the machine, eventsPerWalk those of one walk before
// it is drained.
const (
	walkEvents    = 250_000
	eventsPerWalk = 1_000
)

// failure prints what a failed walk needs to be run again.
func (w *walker) failure(t *testing.T, seed uint64, err error) {
	t.Helper()
	again := newWalker(w.m.step, seed)
	again.record = true
	_ = again.run(eventsPerWalk) // the same error again
	tail := again.lines[max(0, len(again.lines)-30):]
	t.Fatalf("seed %d: %v\nrun it again with -run TestWalks -walk.seed=%d\n%s\n%s",
		seed, err, seed, strings.Join(tail, "\n"), again.m.draw())
}

// TestWalks runs the machine against the model with chance as the driver: every fault at any time.
// After each walk everything is drained and every entry must be there once.
func TestWalks(t *testing.T) {
	if *walkSeed != 0 {
		w := newWalker(Step, *walkSeed)
		w.record = true
		err := w.run(eventsPerWalk)
		t.Logf("%s\n%s", strings.Join(w.lines, "\n"), w.m.draw())
		if err != nil {
			t.Fatalf("seed %d: %v", *walkSeed, err)
		}
		return
	}
	seen, taken := map[[2]Phase]bool{}, map[Arrow]bool{}
	events, seed := 0, uint64(0)
	for events < walkEvents {
		seed++
		w := newWalker(Step, seed)
		w.m.observe = func(before State, e Event, after State, _ []Effect) {
			seen[[2]Phase{after.Front, after.Back}] = true
			if a, ok := takenArrow(before, e, after); ok {
				taken[a] = true
			}
		}
		if err := w.run(eventsPerWalk); err != nil {
			w.failure(t, seed, err)
		}
		events += w.m.steps
	}
	t.Logf("%d walks, %d events, %d pairs of phases", seed, events, len(seen))
	for pair := range explore(t).pairs() {
		// With a broken front round the back round's phase means nothing;
		// TestEveryEventInEveryState has those pairs.
		if !seen[pair] && pair[0] != Broken {
			t.Errorf("no walk came to front %s, back %s", pair[0], pair[1])
		}
	}
	for _, a := range Arrows {
		// A mixed answer would take a log that lies.
		if !taken[a] && a.Event != FoundMixed {
			t.Errorf("no walk took %s --%s--> %s (back round: %v)", a.From, a.Event, a.To, a.Back)
		}
	}
}

// TestWalksRepeat: the same seed gives the same transcript, and another seed another one.
func TestWalksRepeat(t *testing.T) {
	hashes := map[string]uint64{}
	for seed := uint64(1); seed <= 40; seed++ {
		var first string
		for run := range 3 {
			w := newWalker(Step, seed)
			w.record = true
			if err := w.run(eventsPerWalk); err != nil {
				w.failure(t, seed, err)
			}
			if run == 0 {
				first = w.hash()
			}
			if h := w.hash(); h != first {
				t.Fatalf("seed %d: run %d has hash %s, the first one had %s", seed, run, h, first)
			}
		}
		if other, ok := hashes[first]; ok {
			t.Errorf("seeds %d and %d walk the same way", other, seed)
		}
		hashes[first] = seed
	}
}
