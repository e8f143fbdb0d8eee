package txn_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/internal/task"
)

// TestProducersComeFirst: every transactional id that was ever used is initialised before the group
// is joined (rule 1.3). That includes ids of workers that do not exist any more, and an id whose
// coordinator takes its time.
func TestProducersComeFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 3, Instance: "one"})
		_, stop := start(t, countTopology(t), cfg)
		feed(t, b, 200)
		b.read(t, "out", 200)
		if err := stop(); err != nil {
			t.Fatal(err)
		}

		const slow = "counting~one~2~1"
		var mu sync.Mutex
		var refused int
		var initialised []string // in the order in which they were let through, until the group is joined
		joined := false
		b.ControlKey(int16(kmsg.InitProducerID), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			mu.Lock()
			defer mu.Unlock()
			req := kreq.(*kmsg.InitProducerIDRequest)
			if req.TransactionalID == nil {
				return nil, nil, false // the producer of the positions that a stop keeps, and the test's own
			}
			if *req.TransactionalID == slow && refused < 3 {
				refused++
				resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
				resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code
				return resp, nil, true
			}
			if !joined {
				initialised = append(initialised, *req.TransactionalID)
			}
			return nil, nil, false
		})
		b.ControlKey(int16(kmsg.JoinGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			mu.Lock()
			defer mu.Unlock()
			joined = true
			return nil, nil, false
		})
		cfg.Workers = 1
		_, stop = start(t, countTopology(t), cfg)
		feed(t, b, 200)
		check(t, b.read(t, "out", 400), 20)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(initialised)
		want := []string{
			"counting~one~0~0", "counting~one~0~1", "counting~one~1~0", "counting~one~1~1", "counting~one~2~0", "counting~one~2~1",
		}
		if !slices.Equal(initialised, want) {
			t.Errorf("before the group was joined %q were initialised, want %q", initialised, want)
		}
		if !joined || refused != 3 {
			t.Errorf("joined: %t, and the slow id was refused %d times: the test tested nothing", joined, refused)
		}
	})
}

// TestProducerThatNeverComes: rule 1.3. A transactional id whose initialisation is never answered
// ends the start, within ConnectTimeout, with an error that names it and no other one; the group is
// not joined.
func TestProducerThatNeverComes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out")
		const silent = "counting~one~1~0"
		b.ControlKey(int16(kmsg.InitProducerID), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			id := kreq.(*kmsg.InitProducerIDRequest).TransactionalID
			return nil, nil, id != nil && *id == silent // handled, and never answered
		})
		w := b.watch(int16(kmsg.JoinGroup))
		app, err := txn.New(countTopology(t), b.config(txn.Config{
			StateDir: t.TempDir(), Workers: 2, Instance: "one", Logger: testLogger(t),
		}))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		err = app.Run(t.Context())
		if took := time.Since(began); took > 61*time.Second { // ConnectTimeout, and the steps before
			t.Errorf("Run returned after %s", took)
		}
		if err == nil || !strings.Contains(err.Error(), silent) {
			t.Fatalf("Run returned %v, want an error that names %s", err, silent)
		}
		if strings.Contains(err.Error(), "counting~one~0~0") {
			t.Errorf("the error names an id that was answered: %v", err)
		}
		if n := w.of(int16(kmsg.JoinGroup)); n > 0 {
			t.Errorf("the group was joined %d times", n)
		}
	})
}

// TestLargeMetadataIsReadWhereItIs: metadata that became a record are read at exactly the offset
// that the commit names, uncommitted, although newer records with its key are behind it (rule 4.2).
// When the record is gone, the task stops and says where it was.
func TestLargeMetadataIsReadWhereItIs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out")
		cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1, Instance: "one"}).WithMetadataMax(16)
		_, stop := start(t, countTopology(t), cfg)
		b.produce(t, &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("v")})
		b.read(t, "out", 1)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		o, _ := b.offsetsOf(t, "in").Lookup("in", 0)
		ref, ok := task.ParseReference(o.Metadata)
		if !ok {
			t.Fatalf("the metadata %q is no reference", o.Metadata)
		}
		const rounds = "counting-rounds"
		// A later record with the same key, as a round that was aborted leaves it behind, is not
		// the one that the commit names.
		b.produce(t, &kgo.Record{Topic: rounds, Partition: ref.Partition, Key: task.RecordKey("in_0"), Value: []byte("not this one")})

		details, err := b.adm.ListTopics(t.Context(), rounds)
		if err != nil {
			t.Fatal(err)
		}
		id := [16]byte(details[rounds].ID)
		var mu sync.Mutex
		var at []int64
		b.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			req := kreq.(*kmsg.FetchRequest)
			for _, topic := range req.Topics {
				if topic.TopicID != id && topic.Topic != rounds {
					continue
				}
				for _, p := range topic.Partitions {
					mu.Lock()
					at = append(at, p.FetchOffset)
					mu.Unlock()
					if req.IsolationLevel != 0 || p.Partition != ref.Partition {
						t.Errorf("%s[%d] is fetched with isolation level %d", rounds, p.Partition, req.IsolationLevel)
					}
				}
			}
			return nil, nil, false
		})
		_, stop = start(t, countTopology(t), cfg)
		b.produce(t, &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("v")})
		check(t, b.read(t, "out", 2), 2)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		if !slices.Equal(slices.Compact(slices.Clone(at)), []int64{ref.Offset}) {
			t.Errorf("%s was fetched at %v, want at %d", rounds, at, ref.Offset)
		}
		mu.Unlock()

		o, _ = b.offsetsOf(t, "in").Lookup("in", 0)
		if ref, ok = task.ParseReference(o.Metadata); !ok {
			t.Fatalf("the metadata %q is no reference", o.Metadata)
		}
		if err := b.DeleteRecords(rounds, ref.Partition, ref.Offset+1); err != nil {
			t.Fatal(err)
		}
		cfg.Logger = testLogger(t)
		app, err := txn.New(countTopology(t), cfg)
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("%s[%d] offset %d", rounds, ref.Partition, ref.Offset)
		if err := app.Run(t.Context()); !errors.Is(err, txn.ErrAllStopped) || !strings.Contains(err.Error(), want) {
			t.Errorf("Run returned %v, want that the only task has stopped because of %s", err, want)
		}
	})
}

// TestNewClusterIsWaitedFor: a group without a coordinator is asked again, so that the first start
// on a new cluster warns of nothing. One that has none for longer is warned of, and the start goes
// on.
func TestNewClusterIsWaitedFor(t *testing.T) {
	for _, tc := range []struct {
		name     string
		away     time.Duration
		warnings int
	}{{"the coordinator comes after 3 s", 3 * time.Second, 0}, {"it comes after 30 s", 30 * time.Second, 2}} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := newBroker(t, 2, "in", "out")
				began := time.Now()
				var refused atomic.Int64
				b.ControlKey(keyFindCoordinator, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
					b.KeepControl()
					req := kreq.(*kmsg.FindCoordinatorRequest)
					if req.CoordinatorType != 0 || time.Since(began) > tc.away {
						return nil, nil, false
					}
					refused.Add(1)
					resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
					resp.ErrorCode = kerr.CoordinatorNotAvailable.Code
					for _, key := range req.CoordinatorKeys {
						resp.Coordinators = append(resp.Coordinators, kmsg.FindCoordinatorResponseCoordinator{Key: key, ErrorCode: kerr.CoordinatorNotAvailable.Code})
					}
					return resp, nil, true
				})
				var log bytes.Buffer
				_, stop := start(t, countTopology(t), b.config(txn.Config{
					StateDir: t.TempDir(), Workers: 1, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
				}))
				feed(t, b, 100)
				b.read(t, "out", 100)
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				n := strings.Count(log.String(), "cannot describe the group") + strings.Count(log.String(), "cannot read the group's commits")
				if n != tc.warnings || refused.Load() == 0 {
					t.Errorf("%d warnings, want %d; %d lookups were refused\n%s", n, tc.warnings, refused.Load(), &log)
				}
			})
		})
	}
}
