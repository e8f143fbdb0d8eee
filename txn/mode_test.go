package txn_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
	"github.com/onceward/onceward/txn/internal/task"
)

// TestModeIsChecked is requirement I2: a replay does not share the state of the live application,
// and a look at records is nothing that an application commits.
func TestModeIsChecked(t *testing.T) {
	b := topology.NewBuilder("payments")
	topology.From(b, topology.Topic("in", schemas.String(), schemas.String())).
		Into(topology.Topic("out", schemas.String(), schemas.String()))
	payments, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		mode        topology.Mode
		application string
		wrong       string
	}{
		{topology.Live, "", ""},
		{topology.Replay, "payments-2", ""},
		{topology.Replay, "", "Application"},
		{topology.Replay, "payments", "Application"},
		{topology.Backfill, "", ""},
		{topology.Repair, "", ""},
		{topology.Forensic, "payments-2", "Mode"},
		{topology.Forensic + 1, "payments-2", "Mode"},
	}
	for _, test := range tests {
		_, err := txn.New(payments, txn.Config{
			Brokers: []string{"localhost:9092"}, StateDir: t.TempDir(), Application: test.application, Mode: test.mode,
		})
		wrong := ""
		if mistake, ok := errors.AsType[*txn.ConfigError](err); ok {
			wrong = mistake.Field
		}
		if wrong != test.wrong || (err == nil) != (wrong == "") {
			t.Errorf("%s as application %q: %v", test.mode, test.application, err)
		}
	}
}

// TestModesAreNotMixed is requirement I2: what has committed in one mode goes on in that mode
// alone, unless it is said which one it takes over. An instance with another one ends at its start,
// or, where the commit is too large to be looked at there, with the first task that it is given.
func TestModesAreNotMixed(t *testing.T) {
	for name, test := range map[string]struct {
		mode, other topology.Mode
		metadataMax int
	}{
		"at the start":           {topology.Backfill, topology.Repair, 0},
		"with the task":          {topology.Backfill, topology.Repair, 1},
		"repairs, at the start":  {topology.Repair, topology.Backfill, 0},
		"repairs, with the task": {topology.Repair, topology.Backfill, 1},
	} {
		bubble(t, name, func(t *testing.T) {
			metadataMax := test.metadataMax
			b := newBroker(t, 1, "in", "out")
			top, dir, written := copyTopology(t, "out"), t.TempDir(), 0
			config := func(mode topology.Mode, before ...topology.Mode) txn.Config {
				cfg := b.config(txn.Config{
					StateDir: dir, Workers: 1, Mode: mode, ModesBefore: before, Logger: testLogger(t),
				})
				if metadataMax > 0 {
					cfg = cfg.WithMetadataMax(metadataMax)
				}
				return cfg
			}
			works := func(mode topology.Mode, before ...topology.Mode) {
				t.Helper()
				b.produce(t, &kgo.Record{Topic: "in", Value: []byte("v")})
				_, stop := start(t, top, config(mode, before...))
				written++
				b.read(t, "out", written)
				if err := stop(); err != nil {
					t.Fatal(err)
				}
			}
			refuses := func(mode, had topology.Mode, before ...topology.Mode) {
				t.Helper()
				app, err := txn.New(top, config(mode, before...))
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				err = app.Run(ctx)
				_, atStart := errors.AsType[*txn.ConfigError](err)
				if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "mode "+had.String()) {
					t.Fatalf("%s with state of mode %s: %v", mode, had, err)
				}
				if want := metadataMax == 0; atStart != want || errors.Is(err, txn.ErrStopped) == want {
					t.Errorf("%s with state of mode %s is refused at the start: %t, want %t: %v", mode, had, atStart, want, err)
				}
			}
			works(test.mode)
			refuses(topology.Live, test.mode)
			refuses(topology.Live, test.mode, test.other)
			works(topology.Live, test.mode)
			works(topology.Live)
			refuses(test.mode, topology.Live)
			b.read(t, "out", written)
		})
	}
}

// TestModeOfAnOperatorsCommit is requirement I2: what an operator commits for a task of which no
// commit is known, and without state, says nothing of the mode. The application goes on in the one
// that its other tasks name, in which the task then commits, and in no other one.
func TestModeOfAnOperatorsCommit(t *testing.T) {
	for name, act := range map[string]func(context.Context, *admin.Application) (admin.Report, error){
		"reset": func(ctx context.Context, a *admin.Application) (admin.Report, error) {
			return a.Reset(ctx, admin.Options{Tasks: []string{"in_1"}}, admin.Offsets{"in": admin.End})
		},
		"rebuild from-input": func(ctx context.Context, a *admin.Application) (admin.Report, error) {
			return a.RebuildFromInput(ctx, admin.Options{Tasks: []string{"in_1"}}, nil)
		},
	} {
		bubble(t, name, func(t *testing.T) {
			b := newBroker(t, 2, "in", "out")
			top := copyTopology(t, "out")
			cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1, Mode: topology.Backfill, Logger: testLogger(t)})
			written := 0
			works := func(partition int32) {
				t.Helper()
				b.produce(t, &kgo.Record{Topic: "in", Partition: partition, Value: []byte("v")})
				_, stop := start(t, top, cfg)
				written++
				b.read(t, "out", written)
				if err := stop(); err != nil {
					t.Fatal(err)
				}
			}
			works(0)
			client := b.office(t)
			if report, err := act(t.Context(), client.Application(top)); err != nil || !report.Tasks[0].Changed {
				t.Fatalf("the report is %+v, %v", report, err)
			}
			cfg.Mode = topology.Live
			app, err := txn.New(top, cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := app.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "in[0] in mode BACKFILL") {
				t.Errorf("a live instance returned %v", err)
			}
			cfg.Mode = topology.Backfill
			works(0)
			works(1)
			b.offsetsOf(t, "in").Each(func(o kadm.OffsetResponse) {
				if committed, err := task.ParseCommitMetadata(o.Metadata); err != nil || committed.Mode != topology.Backfill || committed.Modeless {
					t.Errorf("%s[%d] is committed with %+v, %v", o.Topic, o.Partition, committed, err)
				}
			})
		})
	}
}

// TestModeOfAdoptedState: adopted state without a known commit has a mode (requirement I2). It has
// the mode that the commits of the other tasks say. If there are none, the operator must say the
// mode: a replay that was taken for live would call other systems. An instance in another mode ends
// at its start.
func TestModeOfAdoptedState(t *testing.T) {
	for name, test := range map[string]struct {
		mode topology.Mode
		lost int32 // the commits of so many of the two tasks
		// said is what the operator says, nil if that is nothing.
		said    *topology.Mode
		refused string
	}{
		"one of a live application":     {topology.Live, 1, nil, ""},
		"one of a backfill":             {topology.Backfill, 1, nil, ""},
		"one of a backfill, and said":   {topology.Backfill, 1, new(topology.Backfill), ""},
		"one of a backfill, said wrong": {topology.Backfill, 1, new(topology.Live), "BACKFILL, and not LIVE"},
		"all of a live application":     {topology.Live, 2, nil, "`onceward adopt --mode MODE in_0`"},
		"all of a backfill":             {topology.Backfill, 2, nil, "`onceward adopt --mode MODE in_0`"},
		"all of a live one, and said":   {topology.Live, 2, new(topology.Live), ""},
		"all of a backfill, and said":   {topology.Backfill, 2, new(topology.Backfill), ""},
		"all of a backfill, said wrong": {topology.Backfill, 2, new(topology.Forensic), "no application has run in mode FORENSIC"},
	} {
		bubble(t, name, func(t *testing.T) {
			b := newBroker(t, 2, "in", "out")
			cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1, Mode: test.mode, Logger: testLogger(t)})
			_, stop := start(t, countTopology(t), cfg)
			feed(t, b, 100)
			b.read(t, "out", 100)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			lost, acted := kadm.Offsets{}, admin.Options{Mode: test.said}
			b.offsetsOf(t, "in").Each(func(o kadm.OffsetResponse) {
				if o.Partition < test.lost {
					id := fmt.Sprint("in_", o.Partition)
					o.Metadata = "of another program"
					lost.Add(o.Offset)
					acted.Tasks = append(acted.Tasks, id)
					b.produce(t, &kgo.Record{Topic: "counting-rounds", Key: task.PositionsKey(id)}) // what the clean stop has kept
				}
			})
			if err := b.adm.CommitAllOffsets(t.Context(), "counting", lost); err != nil {
				t.Fatal(err)
			}
			client := b.office(t)
			report, err := client.Application(countTopology(t)).Adopt(t.Context(), acted)
			if test.refused != "" {
				if !errors.Is(err, admin.ErrRefused) || !strings.Contains(err.Error(), test.refused) {
					t.Errorf("adopt returned %v, want a refusal with %q", err, test.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := report.Tasks[0]; got.Mode != test.mode.String() || got.ModeAssumed != (test.said == nil) {
				t.Errorf("the report says mode %q, assumed: %t", got.Mode, got.ModeAssumed)
			}
			b.offsetsOf(t, "in").Each(func(o kadm.OffsetResponse) {
				if committed, err := task.ParseCommitMetadata(o.Metadata); err != nil || committed.Mode != test.mode || committed.Modeless {
					t.Errorf("%s[%d] is committed with %+v, %v", o.Topic, o.Partition, committed, err)
				}
			})
			for _, mode := range []topology.Mode{topology.Live, topology.Backfill, topology.Repair} {
				if mode == test.mode {
					continue
				}
				cfg.Mode = mode
				app, err := txn.New(countTopology(t), cfg)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				err = app.Run(ctx)
				cancel()
				if err == nil || !strings.Contains(err.Error(), "in mode "+test.mode.String()) {
					t.Errorf("an instance in mode %s returned %v", mode, err)
				}
			}
			cfg.Mode = test.mode
			_, stop = start(t, countTopology(t), cfg)
			feed(t, b, 100)
			check(t, b.read(t, "out", 200), 10)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
