package processing

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/topology/topologytest"
)

// epoch is when histories in memory begin: before bubbles do, because a record far ahead of the
// clock is refused.
var epoch = time.Date(1999, 12, 1, 0, 0, 0, 0, time.UTC)

// memoryRun is a pipeline in memory.
type memoryRun struct {
	*topologytest.Driver
	parts    parts
	settings Settings
	gateway  *Gateway
	post     *Gateway
	// wrong is what is wrong with the world, worlds what it becomes in a run.
	wrong  string
	worlds []string
	got    outcome
	// history has what was lost, fed is all that was delivered, commands what each partition was
	// told, and findings what people have found out.
	history  *history
	fed      []delivery
	commands []projection.Command
	findings []effect.Resolution
	// expiries say when the ids in the inbox have expired.
	expiries []expiry
	// takenBack counts what was abandoned and has come back.
	takenBack int
}

// topicByAccount is where the facts of the accounts come to their projection.
const topicByAccount = "pipeline-by-account-repartition"

func newMemoryRun(broken Broken, opts ...topologytest.Option) (*memoryRun, error) {
	m := &memoryRun{
		gateway: NewGateway(gatewayLoses), post: NewGateway(postLoses), got: outcome{}, history: newHistory(0, epoch),
	}
	m.settings = Settings{
		provider: m.gateway, post: m.post, world: func() string { return m.wrong }, Broken: broken, seen: &memory{marks: map[string]string{}},
	}
	t, p, err := m.settings.build()
	if err != nil {
		return nil, err
	}
	m.parts = p
	opts = append(opts, topologytest.Partitions(Partitions), topologytest.Clock(time.Now()), topologytest.CommitByHand())
	m.Driver, err = topologytest.New(t, opts...)
	return m, err
}

func (m *memoryRun) pipe(d delivery) error {
	m.fed = append(m.fed, d)
	at := topologytest.At(time.UnixMilli(d.at))
	return m.PipeRaw(TopicEvents, []byte(d.account), []byte(d.value), topologytest.ToPartition(d.partition), at)
}

// settle commits, and lets the clock go on until the effects have come to their ends. A claim that
// a crash has left has to expire before.
func (m *memoryRun) settle() error {
	by := time.Second // a parked record is through by then
	for range 100 {
		delayed := m.Count(nodeDoor, "delayed-transient")
		if err := m.commit(); err != nil {
			return err
		}
		if err := m.Advance(by); err != nil {
			return err
		}
		if err := m.commit(); err != nil {
			return err
		}
		by = 100 * time.Millisecond // and a delayed one
		found, err := m.findOut()
		if err != nil {
			return err
		}
		if found || m.Count(nodeDoor, "delayed-transient") > delayed {
			continue
		}
		if open, err := m.openEffects(); err != nil || !open {
			return err
		}
	}
	return errOpen
}

const errOpen = schemas.Reason("there are effects without an end")

// openEffects reports whether there are effects without an end.
func (m *memoryRun) openEffects() (bool, error) {
	for _, store := range []topology.Store[state.KeyValue[string, effect.Effect]]{m.parts.payouts.Store(), m.parts.notices.Store()} {
		for p := range int32(Partitions) {
			effects, err := topologytest.Store(m.Driver, store, p)
			if err != nil {
				return false, err
			}
			for e, err := range effects.All() {
				if err != nil || e.Value.Status != effect.Completed && e.Value.Status != effect.Suppressed {
					return true, err
				}
			}
		}
	}
	return false, nil
}

// findOut decides unknown outcomes as a person, twice. It reports whether there were any.
func (m *memoryRun) findOut() (found bool, err error) {
	doubted, err := m.OutputRaw(TopicDoubted)
	for _, d := range doubted {
		r, failed := findOut(d.Value, m.post)
		err = errors.Join(err, failed)
		at := topologytest.At(time.UnixMilli(d.Timestamp))
		for range 2 {
			m.findings = append(m.findings, r)
			err = errors.Join(err, m.PipeRaw(TopicFindings, d.Key, encode(r), topologytest.ToPartition(d.Partition), at))
		}
	}
	return len(doubted) > 0, err
}

// commit commits all that follows from what was delivered.
func (m *memoryRun) commit() error {
	for m.Uncommitted() > 0 {
		if err := m.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// interrupt commits some of what was done, and undoes it now and then.
func (m *memoryRun) interrupt(random *rand.Rand) error {
	for m.Uncommitted() > 0 {
		step := m.Commit
		switch n := random.IntN(12); {
		case n == 0:
			step = m.Crash
		case n == 1:
			step = m.Abort
		case n < 6:
			return nil
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// read returns all that was written so far, and the stores.
func (m *memoryRun) read() (outputsSoFar, stores outcome, err error) {
	for _, topic := range outputs {
		if !slices.Contains(m.Topics(), topic) {
			continue // a broken pipeline may have none
		}
		records, err := m.OutputRaw(topic)
		if err != nil {
			return nil, nil, err
		}
		for _, r := range records {
			if err := m.got.written(topic, r.Key, r.Value, r.Headers); err != nil {
				return nil, nil, fmt.Errorf("topic %s: %w", topic, err)
			}
		}
	}
	stores, err = stored(m.parts, opener{driver: m.Driver})
	return m.got.known(), stores, err
}

// compare compares outputs, stores and payments with the recount of what was delivered.
func (m *memoryRun) compare() error {
	outputsGot, storesGot, err := m.read()
	if err != nil {
		return err
	}
	outputsWant, storesWant := recount(m.fed, m.expiries)
	recountCommands(m.commands, outputsWant, storesWant)
	recountFindings(m.findings, outputsWant)
	storesGot = storesGot.archived(m.got[TopicArchive])
	return errors.Join(outputsWant.difference(outputsGot), storesWant.difference(storesGot), m.got.askedOnce(),
		paidOnce(outputsWant, m.gateway, m.post))
}

// anyInterleaving runs the history of a seed: its facts in a random order, with duplicates,
// contradictions, corrections, reversals, poison, restarts, commits, crashes and aborts. The world
// fails and recovers, so that units of work are undone and tried again. A failure names the seed.
func anyInterleaving(seed uint64, broken Broken) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("seed %d: %w", seed, err)
		}
	}()
	h := newHistory(seed, epoch)
	h.grow(5+h.random.IntN(15), "anna", "bert", frail+"-carl")
	deliveries := h.disturb(h.facts, everything)
	m, err := newMemoryRun(broken)
	if err != nil {
		return err
	}
	m.history, m.worlds = h, []string{worldFine, worldDown, worldClosed}
	if err := m.run(deliveries, h.random); err != nil {
		return err
	}
	if h.details.IntN(8) == 0 {
		if err := m.age(h.random); err != nil {
			return err
		}
	}
	if err := m.compare(); err != nil {
		return err
	}
	return sameAsClean(m.fed, h.facts)
}

// age expires all deliveries in the inbox, and then delivers some of them again between new facts.
func (m *memoryRun) age(random *rand.Rand) error {
	old := slices.Clone(m.fed)
	m.expiries = append(m.expiries, expiry{len(m.fed), m.history.age()})
	if err := m.run(m.history.ticks(m.fed), random); err != nil {
		return err
	}
	deliveries := m.history.disturb(m.history.grow(2, "anna", "bert", frail+"-carl"), everything)
	for range 5 {
		deliveries = slices.Insert(deliveries, random.IntN(len(deliveries)+1), old[random.IntN(len(old))])
	}
	return m.run(deliveries, random)
}

// run delivers with mischief around it, and ends with a world that is fine and everything redriven.
func (m *memoryRun) run(deliveries []delivery, random *rand.Rand) error {
	for _, d := range deliveries {
		switch random.IntN(20) {
		case 0:
			if err := m.Restart(); err != nil {
				return err
			}
		case 1:
			if len(m.worlds) > 0 {
				m.wrong = m.worlds[random.IntN(len(m.worlds))]
			}
		case 2:
			m.settings.seen.outage(true)
		case 3:
			if err := m.Advance(100 * time.Millisecond); err != nil {
				return err
			}
		case 4:
			if err := m.command(m.history.command()); err != nil {
				return err
			}
		case 5:
			if n := len(m.commands); n > 0 {
				if err := m.command(m.commands[n-1]); err != nil {
					return err
				}
			}
		default:
			m.settings.seen.outage(false)
		}
		if err := m.pipe(d); err != nil {
			return err
		}
		if err := m.interrupt(random); err != nil {
			return err
		}
		if _, err := m.answer(); err != nil {
			return err
		}
	}
	m.wrong = worldFine
	if err := m.settle(); err != nil {
		return err
	}
	if err := errors.Join(m.redrive(), m.takeBack()); err != nil {
		return err
	}
	for {
		if err := m.settle(); err != nil {
			return err
		}
		if sent, err := m.answer(); err != nil || !sent {
			return errors.Join(err, m.history.foundAll())
		}
	}
}

// command writes a command to every partition.
func (m *memoryRun) command(c projection.Command) error {
	m.commands = append(m.commands, c)
	at := topologytest.At(time.UnixMilli(m.history.now()))
	for p := range int32(Partitions) {
		if err := m.PipeRaw(TopicCommands, []byte(c.ID), encode(c), topologytest.ToPartition(p), at); err != nil {
			return err
		}
	}
	return nil
}

// answer sends what was lost and is asked for by now. It reports whether anything was.
func (m *memoryRun) answer() (sent bool, err error) {
	if !slices.Contains(m.Topics(), TopicRepairs) {
		return false, nil // a broken pipeline has none
	}
	records, err := m.OutputRaw(TopicRepairs)
	if err != nil || len(records) == 0 {
		return false, err
	}
	answered := len(m.got[placeAsked])
	for _, r := range records {
		if err := m.got.written(TopicRepairs, r.Key, r.Value, r.Headers); err != nil {
			return false, err
		}
	}
	var found []delivery
	err = m.got.asked(answered, func(account string, first, last int64) {
		found = append(found, m.history.send(func(f fact) bool {
			return f.account == account && first <= f.Version && f.Version <= last
		})...)
	})
	for _, d := range found {
		err = errors.Join(err, m.pipe(d))
	}
	return len(found) > 0, err
}

// takeBack writes what has waited behind a gap, and was abandoned because the world was closed when
// its turn came, back in front of the projection: the inbox before it knows the events.
func (m *memoryRun) takeBack() error {
	if !slices.Contains(m.Topics(), TopicAbandoned) {
		return nil // a broken pipeline has none
	}
	records, err := m.OutputRaw(TopicAbandoned)
	if err != nil {
		return err
	}
	for _, r := range records {
		a, err := decode[projection.Abandoned[json.RawMessage]](r.Value)
		if err != nil {
			return err
		}
		if a.Reason != projection.Failed {
			return fmt.Errorf("a record is abandoned because of %s: %s", a.Reason, a.Message)
		}
		was := func(back *topologytest.Raw) { back.Headers, back.Timestamp = r.Headers, r.Timestamp }
		if err := m.PipeRaw(topicByAccount, r.Key, a.Value, was); err != nil {
			return err
		}
		m.takenBack++
	}
	return nil
}

// redrive writes the dead letters of a world that was closed back to where they died.
func (m *memoryRun) redrive() error {
	letters, err := m.OutputRaw(TopicDead)
	if err != nil {
		return err
	}
	for _, l := range letters {
		info, err := graph.ParseDeadLetter(l.Headers)
		if err != nil {
			return err
		}
		if info.Node != nodeWorld {
			if err := m.got.written(TopicDead, l.Key, l.Value, l.Headers); err != nil {
				return err
			}
			continue
		}
		died := func(r *topologytest.Raw) { r.Headers, r.Timestamp = l.Headers, l.Timestamp }
		if err := m.PipeRaw(info.Origin.Topic, l.Key, l.Value, topologytest.ToPartition(info.Origin.Partition), died); err != nil {
			return err
		}
	}
	return nil
}

// sameAsClean: what has come of the deliveries is what comes of the clean sequence.
func sameAsClean(deliveries []delivery, facts []fact) error {
	outputsOf, storesOf := recount(deliveries, nil)
	outputsClean, storesClean := recount(clean(facts), nil)
	for _, o := range []outcome{outputsOf, outputsClean} {
		delete(o, TopicAudit) // says how often something came
		delete(o, TopicDead)
	}
	return errors.Join(outputsClean.difference(outputsOf), storesClean.difference(storesOf))
}

// cases is how many histories the property tests take.
func cases() uint64 {
	switch {
	case virtual.RaceDetector: // a history is a single goroutine, but for the calls of effects
		return 20
	case testing.Short():
		return 100
	}
	return 1000
}

// firstSeed is where a property test begins: with -short always at the same seed, else anywhere.
func firstSeed() uint64 {
	if testing.Short() {
		return 1
	}
	return rand.Uint64() >> 1
}

// inMemory runs a test of what runs in memory, on virtual time, because the calls of effects have
// timeouts. It skips the test where the process tests on real Kafka.
func inMemory(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	cluster.SkipWithout(t, cluster.KindVirtual)
	t.Parallel()
	virtual.Test(t, f)
}

// TestAnyInterleaving: facts come in any order and any number of times, with contradictions,
// corrections, restarts, and commits. Crashes and aborts undo uncommitted work between them. The
// outcome is that of the clean sequence. Rows of the failure matrix: crash after processing before
// flush; duplicate delivery; older version after newer.
func TestAnyInterleaving(t *testing.T) {
	inMemory(t, func(t *testing.T) {
		first := firstSeed()
		for seed := first; seed < first+cases(); seed++ {
			if err := anyInterleaving(seed, Whole); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestReplayConverges: the inputs are read again from the beginning, with empty stores and the
// partitions in another order. Outputs and stores are the same, except for the effects, which are
// suppressed. Delivered again over the existing stores, the inputs change nothing. Requirement I3.
func TestReplayConverges(t *testing.T) {
	inMemory(t, func(t *testing.T) {
		first := firstSeed()
		for seed := first; seed < first+cases()/5; seed++ {
			if err := replayConverges(seed); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
	})
}

func replayConverges(seed uint64) error {
	h := newHistory(seed, epoch)
	h.grow(10, "anna", "bert", "carl")
	deliveries := h.disturb(h.facts, everything)
	deliveries = append(deliveries, h.send(func(fact) bool { return true })...) // the log has what was asked for
	replay, err := newMemoryRun(Whole, topologytest.Mode(topology.Replay))
	if err != nil {
		return err
	}
	var partitions [Partitions][]delivery
	for _, d := range deliveries {
		partitions[d.partition] = append(partitions[d.partition], d)
	}
	for left := len(deliveries); left > 0; {
		p := h.random.IntN(Partitions)
		if len(partitions[p]) == 0 {
			continue
		}
		if err := replay.pipe(partitions[p][0]); err != nil {
			return err
		}
		partitions[p], left = partitions[p][1:], left-1
	}
	if err := replay.settle(); err != nil {
		return err
	}
	outputsGot, storesGot, err := replay.read()
	if err != nil {
		return err
	}
	outputsWant, storesWant := recount(deliveries, nil)
	recountCommands(nil, outputsWant, storesWant)
	if err := errors.Join(suppressed(outputsWant).difference(outputsGot), suppressed(storesWant).difference(storesGot)); err != nil {
		return fmt.Errorf("from nothing: %w", err)
	}
	if paid := len(replay.gateway.all()) + len(replay.post.all()); paid > 0 {
		return fmt.Errorf("a replay has paid %d times", paid)
	}
	m, err := newMemoryRun(Whole)
	if err != nil {
		return err
	}
	twice := append(deliveries, deliveries...)
	if err := m.run(twice, h.random); err != nil {
		return err
	}
	if err := m.compare(); err != nil {
		return fmt.Errorf("over what is kept: %w", err)
	}
	return nil
}

// TestAbandonedComesBack: what has waited and is abandoned, since the world is closed when its turn
// comes, has no effect until it is written back, and then that of the clean sequence. Row of the
// failure matrix: gap.
func TestAbandonedComesBack(t *testing.T) {
	inMemory(t, func(t *testing.T) {
		at, account := epoch.UnixMilli(), frail+"-carl"
		// The first fact is refused, and asks nothing of the world.
		facts := []fact{
			{account, Event{ID: "a", Version: 1, Kind: Deposit, Amount: 1}, at},
			{account, Event{ID: "o", Version: 2, Kind: Open}, at},
			{account, Event{ID: "b", Version: 3, Kind: Deposit, Amount: 2}, at},
		}
		deliveries := clean([]fact{facts[2], facts[1], facts[0]})
		m, err := newMemoryRun(Whole)
		if err != nil {
			t.Fatal(err)
		}
		m.wrong = worldClosed
		for _, d := range deliveries {
			if err := errors.Join(m.pipe(d), m.commit()); err != nil { // or the world were fine when the turn of the second comes
				t.Fatal(err)
			}
		}
		if err := m.run(nil, rand.New(rand.NewPCG(1, 1))); err != nil {
			t.Fatal(err)
		}
		if err := m.compare(); err != nil {
			t.Error(err)
		}
		if m.takenBack != 1 {
			t.Errorf("%d records were abandoned, want the second fact", m.takenBack)
		}
	})
}

// TestExactAmounts: two amounts that a float64 does not tell apart are a conflict, in the inbox and
// in everything behind it, and the balance is exact.
func TestExactAmounts(t *testing.T) {
	inMemory(t, func(t *testing.T) {
		at := epoch.UnixMilli()
		facts := []fact{
			{"anna", Event{ID: "o", Version: 1, Kind: Open}, at},
			{"anna", Event{ID: "a", Version: 2, Kind: Deposit, Amount: beyond}, at},
			{"anna", Event{ID: "a", Version: 2, Kind: Deposit, Amount: beyond - 1}, at},
			{"anna", Event{ID: "b", Version: 3, Kind: Deposit, Amount: beyond}, at},
		}
		if float64(beyond) != float64(int64(beyond-1)) {
			t.Fatal("the amounts differ in floats too: nothing is shown")
		}
		deliveries := clean(facts)
		deliveries[2].partition = deliveries[1].partition
		m, err := newMemoryRun(Whole)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.run(deliveries, rand.New(rand.NewPCG(1, 1))); err != nil {
			t.Fatal(err)
		}
		if err := m.compare(); err != nil {
			t.Error(err)
		}
		if got := fmt.Sprint(m.got[TopicBalances+"/anna"]); got != "[1 9007199254740993 a 2 18014398509481986 b]" {
			t.Errorf("the balances are %s", got)
		}
		if got := len(m.got[TopicDead]); got != 1 {
			t.Errorf("%d dead letters, want the conflict", got)
		}
	})
}

// TestBroken is the negative control of what runs in memory: each broken pipeline is found within a
// few histories. Those that mark before the effect and that drop while their marks cannot be read
// are the traps that others fell into. One that keeps effects in memory is found by nothing but
// what undoes work that was done to its end.
func TestBroken(t *testing.T) {
	if virtual.RaceDetector {
		t.Skip("tells broken pipelines from whole ones, in memory: TestAnyInterleaving makes the same calls")
	}
	inMemory(t, func(t *testing.T) {
		const seeds = 30
		for _, broken := range []Broken{
			NoInbox, MarksBefore, MarksInFloats, OverlooksConflicts, ArchivesInMemory, DelaysInMemory, DropsInOutage, AcceptsGaps, AsksOnce,
			KeepsUndone, PaysAgain, ShowsOnce, CountsByArrival, CallsAtOnce, RepeatsUnknown,
		} {
			found := false
			for seed := uint64(1); seed <= seeds && !found; seed++ {
				err := anyInterleaving(seed, broken)
				if found = err != nil; found {
					t.Logf("%s: %v", broken, err)
				}
			}
			if !found {
				t.Errorf("a pipeline that is broken (%s) passes %d histories", broken, seeds)
			}
		}
	})
}

// TestBrokenOutcome is the negative control of the comparison: whatever line is missing, there
// twice or another one is found.
func TestBrokenOutcome(t *testing.T) {
	cluster.SkipWithout(t, cluster.KindVirtual)
	t.Parallel()
	h := newHistory(1, epoch)
	h.grow(12, "anna", "bert")
	deliveries := h.disturb(h.facts, everything)
	for _, damage := range []func(lines []string) []string{
		func(lines []string) []string { return lines[1:] },
		func(lines []string) []string { return append(lines, lines[len(lines)-1]) },
		func(lines []string) []string { return append([]string{lines[0] + "0"}, lines[1:]...) },
	} {
		outputsWant, storesWant := recount(deliveries, nil)
		for _, want := range []outcome{outputsWant, storesWant} {
			for place := range want {
				a, b := recount(deliveries, nil)
				for _, got := range []outcome{a, b} {
					if _, there := got[place]; !there {
						continue
					}
					got[place] = damage(got[place])
				}
				if outputsWant.difference(a) == nil && storesWant.difference(b) == nil {
					t.Errorf("a difference in %s is not found", place)
				}
			}
		}
	}
}

// suppressed is an outcome in which no effect was made.
func suppressed(o outcome) outcome {
	made := []string{TopicPaid, TopicNoticed, nodePayouts, nodeNotices, TopicAudit}
	out := outcome{}
	for place, lines := range o {
		to := place
		if place == TopicPaid {
			to = TopicHeld
		}
		for _, line := range lines {
			for _, node := range []string{nodePayouts, nodeNotices} {
				line = strings.Replace(line, node+" requested ", node+" suppressed ", 1)
			}
			if slices.Contains(made, place) {
				line = strings.Replace(line, effect.Completed.String(), effect.Suppressed.String(), 1)
			}
			out[to] = append(out[to], line)
		}
	}
	return out.sorted()
}
