package effect_test

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/codectest"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// TestLedgerNeedsAllItsStores: a ledger is there with all of its stores, of their layout.
func TestLedgerNeedsAllItsStores(t *testing.T) {
	stores := state.KeyValues("b", "b-due", "b-claim", "-due", "-claim", "a-claim", "a", "a-due", "c", "c-claim", "d-due", "d-claim",
		"e", "e-due", "e-claim", "seen")
	stores[14].Layout = state.Layout{Kind: state.TimestampedKind}
	if got := effect.Names(stores); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the ledgers are %q", got)
	}
}

// TestReadEffect: what is stored is read as the ledger reads it, and what no ledger has written is
// damage, of which nothing is quoted.
func TestReadEffect(t *testing.T) {
	value, err := schemas.JSON[effect.Effect]().Append(nil, effect.Effect{Status: effect.Unknown, Attempts: 2, IdempotencyKey: "i"})
	if err != nil {
		t.Fatal(err)
	}
	id, e, err := effect.ReadEffect(state.Entry{Key: []byte("c1"), Value: value})
	if err != nil || id != "c1" || e.Status != effect.Unknown || e.Attempts != 2 || e.IdempotencyKey != "i" {
		t.Errorf("the row is read as %q %+v, %v", id, e, err)
	}
	for _, row := range []state.Entry{
		{Key: []byte("c1"), Value: []byte(codectest.Canary)},
		{Key: []byte("c1"), Value: []byte(`{"n":"` + codectest.Canary + `"}`)},
		{Key: []byte("c1"), Value: []byte(`{"status":"` + codectest.Canary + `"}`)},
		{Key: []byte(codectest.Canary + "\xff"), Value: value},
	} {
		if id, e, err := effect.ReadEffect(row); !errors.Is(err, state.ErrCorrupt) || strings.Contains(err.Error(), codectest.Canary) {
			t.Errorf("%q is read as %q %+v, %v", row.Value, id, e, err)
		}
	}
}

// TestReadClaims: every step of every open claim, by its effect.
func TestReadClaims(t *testing.T) {
	row := func(value string) state.Entry { return state.Entry{Key: []byte("opening"), Value: []byte(value)} }
	rows := func(entries ...state.Entry) iter.Seq2[state.Entry, error] {
		return func(yield func(state.Entry, error) bool) {
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
	got, err := effect.ReadClaims(rows(
		row(`{"opening":"x","number":1,"at":10,"expires":40,"steps":[{"id":"a","was":"RECEIVED"},{"id":"b","was":"UNKNOWN","lookup":true}]}`),
		row(`{"opening":"y","number":7,"at":20,"expires":50,"steps":[{"id":"c","was":"FAILED_RETRYABLE"}]}`),
	))
	want := map[string]effect.Claimed{
		"a": {At: 10, Expires: 40}, "b": {Lookup: true, At: 10, Expires: 40}, "c": {At: 20, Expires: 50},
	}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("the claims are %+v, %v", got, err)
	}
	if got, err := effect.ReadClaims(rows(row(codectest.Canary))); !errors.Is(err, state.ErrCorrupt) || strings.Contains(err.Error(), codectest.Canary) {
		t.Errorf("damage is read as %+v, %v", got, err)
	}
	broken := errors.New("the disk")
	if _, err := effect.ReadClaims(func(yield func(state.Entry, error) bool) { yield(state.Entry{}, broken) }); !errors.Is(err, broken) {
		t.Errorf("what cannot be read is %v", err)
	}
}

// TestResolvedFrom is requirement H3 for programs that write resolutions. The description names the
// topic to write to, also behind other nodes. The topics of requests and claims, which lead to
// nodes with the same stores, are not named.
func TestResolvedFrom(t *testing.T) {
	b := topology.NewBuilder("app")
	e := declare(b, newGateway())
	mails := effect.Perform(topology.From(b, topology.Topic("mails", schemas.String(), schemas.JSON[Capture]())), "mail",
		captureRequest, newGateway().capture)
	checked := topology.From(b, resolutionsTopic).Filter("checked", func(topology.Record[string, effect.Resolution]) (bool, error) { return true, nil })
	effect.Resolve(e, checked, "people")
	effect.Resolve(mails, topology.RepartitionWith(
		topology.From(b, topology.Topic("unkeyed", schemas.String(), schemas.JSON[effect.Resolution]())), "keyed", schemas.String(),
		schemas.JSON[effect.Resolution]()), "others")
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{"capture": {"resolutions false"}, "mail": {"app-keyed-repartition true"}, "absent": nil} {
		var got []string
		for _, s := range effect.ResolvedFrom(topo.Description(), name) {
			got = append(got, fmt.Sprint(s.Topic, " ", s.Repartition))
		}
		if !slices.Equal(got, want) {
			t.Errorf("resolutions of %s come from %q, want %q", name, got, want)
		}
	}
}
