package processors_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/processors/transition"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// emitting declares each processor that can emit records which fail otherwise, with a node named p.
// It gives the processor the option if emits says so, and uses the stream if uses does.
var emitting = map[string]struct {
	declare func(s records, emits, uses bool)
	// stream and option are named in mistakes. record is one of the stream in words.
	stream, option, record string
	// aspect is what the contract says it under.
	aspect topology.Aspect
}{
	"inbox, conflicts": {func(s records, emits, uses bool) {
		use(inbox.Dedupe(s, "p", valueOf, options(emits, inbox.EmitConflicts(), inbox.Forever())...).Conflicts(), uses)
	}, "Conflicts", "EmitConflicts", "a conflict", topology.IdempotencyKey},
	"inbox, globally": {func(s records, emits, uses bool) {
		globally := inbox.Globally(schemas.String(), schemas.String())
		use(inbox.Dedupe(s, "p", valueOf, options(emits, inbox.EmitConflicts(), inbox.Forever(), globally)...).Conflicts(), uses)
	}, "Conflicts", "EmitConflicts", "a conflict", topology.IdempotencyKey},
	"inbox, late": {func(s records, emits, uses bool) {
		use(inbox.Dedupe(s, "p", valueOf, options(emits, inbox.EmitLate(), inbox.Retain(time.Hour))...).Late(), uses)
	}, "Late", "EmitLate", "a late record", topology.OutOfOrder},
	"inbox, missing": {func(s records, emits, uses bool) {
		use(inbox.Dedupe(s, "p", valueOf, options(emits, inbox.EmitMissing(), inbox.Forever())...).Missing(), uses)
	}, "Missing", "EmitMissing", "a record without an id", topology.OnPoison},
	"inbox, malformed": {func(s records, emits, uses bool) {
		use(inbox.Dedupe(s, "p", valueOf, options(emits, inbox.EmitMalformed(), inbox.Forever())...).Malformed(), uses)
	}, "Malformed", "EmitMalformed", "a record with an unusable id", topology.OnPoison},
	"ledger": {func(s records, emits, uses bool) {
		use(ledger.Post(s, "p", noContribution, options(emits, ledger.EmitConflicts())...).Conflicts(), uses)
	}, "Conflicts", "EmitConflicts", "a conflict", topology.IdempotencyKey},
	"ledger, windowed": {func(s records, emits, uses bool) {
		l := ledger.PostWindowed(s, "p", ledger.Tumbling(time.Hour), noContribution, options(emits, ledger.EmitConflicts())...)
		use(l.Conflicts(), uses)
	}, "Conflicts", "EmitConflicts", "a conflict", topology.IdempotencyKey},
	"transition": {func(s records, emits, uses bool) {
		machine := transition.Machine[string]{Initial: []string{"a"}, Next: map[string][]string{"a": nil}}
		read := func(record) (transition.Transition[string], error) { return transition.Transition[string]{}, nil }
		use(transition.Guard(s, "p", machine, read, options(emits, transition.EmitRefused(transition.Stale))...).Refused(transition.Stale), uses)
	}, "Refused for stale", "EmitRefused", "such a transition", topology.OutOfOrder},
	"effect": {func(s records, emits, uses bool) {
		use(effect.Perform(s, "p", noRequest, noCall, options(emits, effect.EmitConflicts())...).Conflicts(), uses)
	}, "Conflicts", "EmitConflicts", "a conflict", topology.OnDuplicate},
}

// options returns others, and option if it is given.
func options[O any](given bool, option O, others ...O) []O {
	if given {
		return append(others, option)
	}
	return others
}

// use declares a node that gets the records of s.
func use[K, V any](s topology.Stream[K, V], uses bool) {
	if uses {
		s.Peek("end", func(topology.Record[K, V]) error { return nil })
	}
}

func built(declare func(s records, emits, uses bool), emits, uses bool) (*topology.Topology, error) {
	b := topology.NewBuilder("app", topology.DeadLetters("dead"))
	declare(topology.From(b, topology.Topic("in", schemas.String(), schemas.String())), emits, uses)
	return b.Build()
}

// TestEmittedIsAnOption: Build refuses a stream that is used without its option, and an option
// whose stream is not used. It reports one mistake, which says what to do.
func TestEmittedIsAnOption(t *testing.T) {
	for name, c := range emitting {
		for _, emits := range []bool{false, true} {
			if _, err := built(c.declare, emits, emits); err != nil {
				t.Errorf("%s, option and use %t: Build returned %v", name, emits, err)
			}
			_, err := built(c.declare, emits, !emits)
			var failed *topology.BuildError
			if !errors.As(err, &failed) || len(failed.Mistakes) != 1 || failed.Mistakes[0].Node != "p" ||
				!strings.HasSuffix(failed.Mistakes[0].File, "emitoptions_test.go") {
				t.Errorf("%s, option %t and use %t: Build returned %v", name, emits, !emits, err)
				continue
			}
			used := strings.Replace(c.stream, "Refused", "Refused is used", 1)
			if used == c.stream {
				used += " is used"
			}
			says := fmt.Sprintf("%s, but %s fails; %s emits it instead", used, c.record, c.option)
			if emits {
				says = "nothing uses " + c.stream + ": " + c.option + " emits"
			}
			if text := failed.Mistakes[0].Err.Error(); !strings.Contains(text, says) {
				t.Errorf("%s, option %t: the mistake is %q, want %q in it", name, emits, text, says)
			}
		}
	}
}

// TestEmittedIsInTheContract: the option changes what the contract says and which nodes there are,
// and so the fingerprint. It changes no store, and so a running application can take it or leave
// it.
func TestEmittedIsInTheContract(t *testing.T) {
	for name, c := range emitting {
		fails, err := built(c.declare, false, false)
		if err != nil {
			t.Fatal(err)
		}
		emits, err := built(c.declare, true, true)
		if err != nil {
			t.Fatal(err)
		}
		if fails.Fingerprint() == emits.Fingerprint() {
			t.Errorf("%s: the fingerprints are equal", name)
		}
		if a, b := storesOf(fails), storesOf(emits); !reflect.DeepEqual(a, b) {
			t.Errorf("%s: the stores are %v without the option, %v with it", name, a, b)
		}
		for _, d := range graph.Compare(fails.Description(), emits.Description()) {
			if d.Subject != graph.SubjectNode {
				t.Errorf("%s: the option changes %s", name, d)
			}
		}
		a, b := said(fails, c.aspect), said(emits, c.aspect)
		if !strings.Contains(a, "fail") || !strings.Contains(b, "of its own") && !strings.Contains(b, "of their own") || a == b {
			t.Errorf("%s: the contract says %q without the option, %q with it", name, a, b)
		}
	}
}

// storesOf returns the stores of a topology.
func storesOf(t *topology.Topology) (stores []graph.StoreDescription) {
	for _, sub := range t.Description().Subtopologies {
		stores = append(stores, sub.Stores...)
	}
	return stores
}

// said returns what the contract of a topology says of node p under an aspect.
func said(t *topology.Topology, a topology.Aspect) (text string) {
	for _, c := range t.Clauses() {
		if c.Node == "p" && c.Aspect == a {
			text += c.Text + "\n"
		}
	}
	return text
}
