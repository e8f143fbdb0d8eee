package txn_test

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/admin"
)

// verified verifies the table of an instance that does not run, with a topology or without.
func (r *rates) verified(t *topology.Topology) admin.Verification {
	r.t.Helper()
	opened, err := admin.OpenState(r.t.Context(), r.cfg.StateDir)
	if err != nil {
		r.t.Fatal(err)
	}
	outcomes, err := r.office(r.t).Verify(r.t.Context(), opened, admin.VerifyOptions{Topology: t, Scratch: r.t.TempDir() + "/scratch"})
	if err = errors.Join(err, opened.Close()); err != nil {
		r.t.Fatal(err)
	}
	if len(outcomes) != 1 || outcomes[0].Store != "rate-table" || !outcomes[0].GlobalTable() {
		r.t.Fatalf("the outcomes are %+v", outcomes)
	}
	return outcomes[0]
}

// tamper writes rows behind the back of the topic; an empty value deletes.
func (r *rates) tamper(rows map[string]string) {
	r.t.Helper()
	db, err := pebblestore.Open(filepath.Join(r.cfg.StateDir, "globals", "rate-table"), pebblestore.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	var writes []state.Write
	for key, value := range rows {
		w := state.Write{Store: state.IDOf("rate-table"), Key: []byte(key), Delete: value == ""}
		if value != "" {
			w.Value = append(binary.BigEndian.AppendUint64(nil, 1), value...)
		}
		writes = append(writes, w)
	}
	at := db.Positions()
	if err := errors.Join(db.Apply(at, at, slices.Values(writes)), db.Close()); err != nil {
		r.t.Fatal(err)
	}
}

// expect compares the numbers of an outcome.
func (r *rates) expect(when string, v admin.Verification, rows, differences, unjudged int64) {
	r.t.Helper()
	if v.Err != nil || v.Skipped != nil || v.Rows != rows || v.Differences != differences || v.Unjudged != unjudged {
		r.t.Errorf("%s: %+v, want %d rows, %d differences and %d that cannot be judged", when, v, rows, differences, unjudged)
	}
}

// TestVerifyOfGlobalTable: the table is compared with all partitions of its topic. Rows that were
// changed, lost or made up are found. A key that compaction may have taken is not judged.
func TestVerifyOfGlobalTable(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRates(t)
		r.set(20, 1)
		r.set(5, 2)
		r.remove("r8")
		// A key in two partitions has the row of either.
		for p, value := range []string{"1", "2"} {
			r.produce(t, &kgo.Record{Topic: "rates", Key: []byte("both"), Partition: int32(p), Value: []byte(value)})
		}
		r.produce(t, rate("r1", "no number"), rate("bad", "no number"), &kgo.Record{Topic: "rates", Value: []byte("9")})
		top := ratedTopology(t)
		app, stop := start(t, top, r.cfg)
		waitFor(t, "the table", func() bool {
			tables := app.Status().GlobalTables
			return len(tables) == 1 && tables[0].Records == 31
		})
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		v := r.verified(top)
		r.expect("as it was made", v, 20, 0, 0)
		if v.Position < 31 || v.Changelog != "rates" {
			t.Errorf("the position is %d in %s", v.Position, v.Changelog)
		}

		r.tamper(map[string]string{"r2": "666", "r3": "", "r8": "1", "made-up": "1", "both": "3"})
		v = r.verified(top)
		r.expect("after tampering", v, 21, 5, 0)
		kinds := map[string]admin.Kind{}
		for _, d := range v.First {
			kinds[string(d.Key)] = d.Kind
		}
		for key, want := range map[string]admin.Kind{
			"r2": admin.OtherValue, "r3": admin.Missing, "r8": admin.Extra, "made-up": admin.Extra, "both": admin.OtherValue,
		} {
			if kinds[key] != want {
				t.Errorf("%s differs as %q, want %q", key, kinds[key], want)
			}
		}
		r.tamper(map[string]string{"r2": "2", "r3": "2", "r8": "", "made-up": "", "both": "1"})
		// The record of r2 has another time than the row now, which is a part of the row.
		r.expect("with the time of two rows changed", r.verified(top), 20, 3, 0)

		r.tamper(map[string]string{"bad": "1"})
		r.expect("with a row of a record that makes none", r.verified(top), 21, 3, 1)
		r.set(4, 3) // r0 to r3
		r.expect("behind the position", r.verified(top), 21, 1, 3)
	})
}

// TestVerifyLeavesGlobalTableOut: without the topology that ran last, the records are no rows. A
// topic that was created again is not compared.
func TestVerifyLeavesGlobalTableOut(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRates(t)
		r.set(5, 1)
		r.lives("r1=1", "r1")
		b := topology.NewBuilder("rated", topology.DeadLetters("dead"))
		topology.GlobalTableFrom(b, ratesTopic, ratesStore)
		topology.From(b, topology.Topic("in", schemas.String(), schemas.String())).
			Into(topology.Topic("out", schemas.String(), schemas.String()))
		other, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			topology *topology.Topology
			reason   string
		}{
			{nil, "only the program can turn into rows"},
			{other, "is not the one that ran last"},
		} {
			v := r.verified(tc.topology)
			if v.Err != nil || v.Skipped == nil || !strings.Contains(v.Skipped.Error(), tc.reason) || !v.Equal() {
				t.Errorf("the outcome is %+v, want it left out because %s", v, tc.reason)
			}
		}
		r.expect("with its topology", r.verified(ratedTopology(t)), 5, 0, 0)
		r.recreate()
		if v := r.verified(ratedTopology(t)); v.Err == nil || !strings.Contains(v.Err.Error(), "was deleted and created again") {
			t.Errorf("with another topic: %+v", v)
		}
	})
}
