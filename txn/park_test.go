package txn_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
	"github.com/onceward/onceward/txn/internal/task"
)

// TestParkedKeySurvivesRestart: a key waits through a stop, the loss of the state directory and a
// start, while others go on; then it follows in order. Requirement G6.
func TestParkedKeySurvivesRestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShop(t, topology.Policy{Action: topology.Park, Backoff: 20 * time.Millisecond, BackoffMax: 50 * time.Millisecond})
		s.broken.Store("bad", true)
		dir := t.TempDir()
		app, stop := start(t, s.topology(topology.ParkKeys()), s.config(dir))
		s.send("bad", 3)
		s.send("good", 100)
		check(t, s.read(t, "out", 100), 100)
		waitFor(t, "further tries", func() bool { return s.tries.Load() > 3 })
		if n := app.Status().Totals.DeadLetters; n > 0 {
			t.Errorf("there are %d dead letters", n)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		s.attempts.Clear()
		_, stop = start(t, s.topology(topology.ParkKeys()), s.config(t.TempDir()))
		s.send("bad", 3)
		s.send("good", 100)
		s.read(t, "out", 200)
		before := s.tries.Load()
		waitFor(t, "further tries", func() bool { return s.tries.Load() > before+3 })
		if _, anew := s.attempts.Load(1); anew {
			t.Error("the attempts were counted anew after the start")
		}
		s.broken.Delete("bad")
		records := s.read(t, "out", 206)
		got := consecutive(t, records)
		if got["bad"] != 6 || got["good"] != 200 {
			t.Errorf("counted %v", got)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestParkedKeyThroughAborts: rounds that hold, release and fail parked records are refused again
// and again, and run again from their journal. Requirement G6.
func TestParkedKeyThroughAborts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShop(t, topology.Policy{Action: topology.Park, Backoff: 5 * time.Millisecond, BackoffMax: 10 * time.Millisecond})
		var seen atomic.Int64
		s.ControlKey(keyTxnOffsetCommit, func(req kmsg.Request) (kmsg.Response, error, bool) {
			s.KeepControl()
			if seen.Add(1)%3 != 0 {
				return nil, nil, false
			}
			return refuse(req, kerr.CoordinatorLoadInProgress.Code), nil, true
		})
		app, stop := start(t, s.topology(topology.ParkKeys()), s.config(t.TempDir()))
		want := map[string]int64{}
		for round := range 12 {
			bad := fmt.Sprint("bad", round%3)
			s.broken.Store(bad, true)
			for range 5 {
				s.send(bad, 20)
				s.send("good", 20)
			}
			want[bad] += 100
			want["good"] += 100
			time.Sleep(20 * time.Millisecond) // so that it is tried; without it the test shows less
			s.broken.Delete(bad)
		}
		n := 0
		for _, of := range want {
			n += int(of)
		}
		got := consecutive(t, s.read(t, "out", n))
		for key, last := range want {
			if got[key] != last {
				t.Errorf("%s ends at %d, want %d", key, got[key], last)
			}
		}
		waitFor(t, "nothing that waits", func() bool {
			waiting := 0
			for _, task := range app.Status().Tasks {
				waiting += len(task.Parked)
			}
			return waiting == 0
		})
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestParkKeysTakenAway: a topology that has no place for the records that wait, whose offsets
// are committed, does not go on without them: its task is not opened, and the plan says so before.
// With the option they are processed, and then it can go. It is the same where the last commit is
// that of a build which did not say that records wait. Requirement G6.
func TestParkKeysTakenAway(t *testing.T) {
	for name, older := range map[string]bool{"": false, "after an older build": true} {
		bubble(t, name, func(t *testing.T) { testParkKeysTakenAway(t, older) })
	}
}

// unsayParked makes the commits those of a build that did not say where records wait.
func (s *shop) unsayParked() {
	s.t.Helper()
	offsets := kadm.Offsets{}
	s.offsetsOf(s.t, "in").Each(func(o kadm.OffsetResponse) {
		if committed, err := task.ParseCommitMetadata(o.Metadata); err == nil {
			committed.Parked = nil
			o.Metadata = committed.Encode()
		}
		offsets.Add(o.Offset)
	})
	if err := s.adm.CommitAllOffsets(s.t.Context(), "counting", offsets); err != nil {
		s.t.Fatal(err)
	}
}

func testParkKeysTakenAway(t *testing.T, older bool) {
	s := newShop(t, topology.Policy{Action: topology.Park, Backoff: 20 * time.Millisecond, BackoffMax: 50 * time.Millisecond})
	s.broken.Store("bad", true)
	dir := t.TempDir()
	before := s.topology(topology.ParkKeys())
	_, stop := start(t, before, s.config(dir))
	s.send("bad", 3)
	s.send("good", 10)
	check(t, s.read(t, "out", 10), 10)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if older {
		s.unsayParked()
	}
	s.policy = topology.Policy{Action: topology.DeadLetter}
	client := s.office(t)
	described := before.Description()
	told := map[string]bool{}
	for _, ran := range []*graph.Description{&described, nil} {
		plan, err := client.Application(s.topology()).Plan(t.Context(), ran)
		if err != nil || plan.Judgement != admin.Refused {
			t.Fatalf("the plan is %+v, %v", plan, err)
		}
		for _, f := range plan.Findings {
			told[f.Subject+" "+f.Name] = told[f.Subject+" "+f.Name] || f.Judgement == admin.Refused && strings.Contains(f.What, "3 ")
		}
	}
	if !told["store in.parked"] || !told["task in_0"] {
		t.Errorf("the plans refuse %v", told)
	}
	app, stop := start(t, s.topology(), s.config(dir))
	waitFor(t, "a task that is not opened", func() bool {
		for _, task := range app.Status().Tasks {
			if task.State == txn.TaskStopped {
				return task.ID.Partition == 0 && strings.Contains(task.Reason, "3 records wait in store in.parked")
			}
		}
		return false
	})
	if err := stop(); err == nil {
		t.Error("the end says nothing of the task that was not opened")
	}
	s.broken.Delete("bad")
	_, stop = start(t, s.topology(topology.ParkKeys()), s.config(dir))
	if got := consecutive(t, s.read(t, "out", 13)); got["good"] != 10 || got["bad"] != 3 {
		t.Errorf("counted %v", got)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if older {
		s.unsayParked()
	}
	_, stop = start(t, s.topology(), s.config(dir))
	s.send("bad", 1)
	if got := consecutive(t, s.read(t, "out", 14)); got["bad"] != 4 {
		t.Errorf("counted %v without the option", got)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// TestOwnStoreNamedLikeAParkStore: a store of an application's own holds no parked records,
// whatever its name ends in and its rows begin with. Requirement G6.
func TestOwnStoreNamedLikeAParkStore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShop(t, topology.Policy{})
		with := func(store string) *topology.Topology {
			b := topology.NewBuilder("counting", topology.DeadLetters("dead"))
			in := topology.From(b, topology.Topic("in", schemas.String(), schemas.String()))
			topology.Process(in, "count", topology.KeyValueStore(store, schemas.String(), schemas.Int64()), countRecord).
				Into(topology.Topic("out", schemas.String(), schemas.Int64()))
			top, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			return top
		}
		const own = "mine.parked"
		before := with(own)
		_, stop := start(t, before, s.config(t.TempDir()))
		s.send("red", 3)
		s.read(t, "out", 3)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		ran := before.Description()
		plan, err := s.office(t).Application(with("counts")).Plan(t.Context(), &ran)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(plan.Findings, func(f admin.Finding) bool { return f.Name == own })
		if i < 0 || plan.Findings[i].Judgement == admin.Refused || strings.Contains(plan.Findings[i].What, "wait") {
			t.Errorf("the plan without the store is %+v", plan)
		}
	})
}

// TestDelayedRetry: a record goes through its delayed retry topics, across a restart, while its
// key goes on. Requirement G1.
func TestDelayedRetry(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShop(t, topology.Policy{Action: topology.Delay, Attempts: 3, Then: topology.DeadLetter})
		s.broken.Store("bad", true)
		dir := t.TempDir()
		delays := topology.RetryTopics(300*time.Millisecond, 3*time.Second) // the second one is long enough to stop in
		_, stop := start(t, s.topology(delays), s.config(dir))
		began := time.Now()
		s.send("good", 50)
		s.send("bad", 1)
		s.send("good", 50)
		check(t, s.read(t, "out", 100), 100)
		waitFor(t, "the second try", func() bool { return s.tries.Load() >= 2 })
		if took := time.Since(began); took < 300*time.Millisecond {
			t.Errorf("it was tried again after %s", took)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		_, stop = start(t, s.topology(delays), s.config(dir))
		letter := s.read(t, "dead", 1)[0]
		if took := time.Since(began); took < 3300*time.Millisecond {
			t.Errorf("it died after %s", took)
		}
		var headers []topology.Header
		for _, h := range letter.Headers {
			headers = append(headers, topology.Header{Key: h.Key, Value: h.Value})
		}
		info, err := graph.ParseDeadLetter(headers)
		if err != nil || info.Attempts != 3 || info.Origin.Topic != "in" || info.Origin.Offset != 50 || string(letter.Key) != "bad" {
			t.Errorf("the letter says %+v, %v", info, err)
		}
		s.broken.Delete("bad")
		s.send("bad", 1)
		s.read(t, "out", 101)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// dock copies what it reads, and parks the key bad while broken.
func dock(t *testing.T, broken *atomic.Bool) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("counting", topology.DeadLetters("dead"), topology.OnError(topology.Transient,
		topology.Policy{Action: topology.Park, Backoff: 20 * time.Millisecond, BackoffMax: 50 * time.Millisecond}))
	bytes := topology.Topic("in", schemas.String(), schemas.String())
	topology.From(b, bytes, topology.ParkKeys()).Peek("judge", func(r topology.Record[string, string]) error {
		if r.Key == "bad" && broken.Load() {
			return topology.Fail(topology.Transient, schemas.Reason("not now"))
		}
		return nil
	}).Into(topology.Topic("out", schemas.String(), schemas.String()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// TestRefusedOutputsOfParkedRecords: the cluster refuses, for good, what is made of records that
// were parked. Exactly these become dead letters, with the origin that they have had from the
// beginning, and what waits behind them follows in order. Requirement G6.
func TestRefusedOutputsOfParkedRecords(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const n = 200
		poison := []int{0, 90, 91, n - 1}
		b := newBroker(t, 1, "in", "out", "dead")
		refused := b.refuseProduce(t, "out", kerr.InvalidRecord, func(records []byte, _ int) bool {
			return bytes.Contains(records, []byte("-poison"))
		})
		var broken atomic.Bool
		broken.Store(true)
		app, stop := start(t, dock(t, &broken), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		var records []*kgo.Record
		for i := range n { // with one of another key behind each
			value := fmt.Appendf(nil, "value-%06d", i)
			if slices.Contains(poison, i) {
				value = append(value, "-poison"...)
			}
			records = append(records, &kgo.Record{Topic: "in", Key: []byte("bad"), Value: value},
				&kgo.Record{Topic: "in", Key: []byte("good"), Value: fmt.Appendf(nil, "good-%06d", i)})
		}
		b.produce(t, records...)
		b.read(t, "out", n)
		waitFor(t, "the number of those that wait", func() bool {
			parked := app.Status().Tasks[0].Parked
			return len(parked) == 1 && parked[0] == txn.ParkedStatus{Topic: "in", Keys: 1, Records: n}
		})
		broken.Store(false)
		next := 0
		for _, r := range b.read(t, "out", 2*n-len(poison))[n:] {
			for slices.Contains(poison, next) {
				next++
			}
			if want := fmt.Sprintf("value-%06d", next); string(r.Value) != want {
				t.Fatalf("read %s, want %s", r.Value, want)
			}
			next++
		}
		for i, letter := range b.read(t, "dead", len(poison)) {
			var headers []topology.Header
			for _, h := range letter.Headers {
				headers = append(headers, topology.Header{Key: h.Key, Value: h.Value})
			}
			info, err := graph.ParseDeadLetter(headers)
			if err != nil || info.Origin.Topic != "in" || info.Origin.Offset != int64(2*poison[i]) || info.Class != topology.Validation {
				t.Errorf("letter %d says %+v, %v", i, info, err)
			}
		}
		waitFor(t, "nothing that waits", func() bool { return len(app.Status().Tasks[0].Parked) == 0 })
		if tries := refused.Load(); tries < int64(len(poison)) || tries > int64(40+40*len(poison)) {
			t.Errorf("%d refusals for %d guilty records", tries, len(poison))
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestRefusedDeadLetterOfAParkedRecord: where the dead letter is refused as well the task stops,
// and says at which record. Requirement G6.
func TestRefusedDeadLetterOfAParkedRecord(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out", "dead") // with a task that goes on
		out, dead := b.TopicInfo("out").TopicID, b.TopicInfo("dead").TopicID
		poison := func(records []byte, _ int) bool { return bytes.Contains(records, []byte("-poison")) }
		b.refuseProduceTo(t, [][16]byte{out, dead}, kerr.InvalidRecord, poison)
		var broken atomic.Bool
		broken.Store(true)
		app, stop := start(t, dock(t, &broken), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		b.produce(t, &kgo.Record{Topic: "in", Key: []byte("good"), Value: []byte("v")},
			&kgo.Record{Topic: "in", Key: []byte("bad"), Value: []byte("v-poison")})
		waitFor(t, "a record that waits", func() bool { return app.Status().Totals.Records == 2 })
		broken.Store(false)
		waitFor(t, "the stop", func() bool {
			return slices.ContainsFunc(app.Status().Tasks, func(task txn.TaskStatus) bool {
				return task.State == txn.TaskStopped &&
					strings.Contains(task.Reason, "stopped at parked record in[0] offset 1: its dead letter was refused too")
			})
		})
		if err := stop(); !errors.Is(err, txn.ErrStopped) {
			t.Errorf("Run returned %v", err)
		}
	})
}
