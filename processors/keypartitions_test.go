package processors_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/processors/transition"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

type (
	record  = topology.Record[string, string]
	records = topology.Stream[string, string]
)

// keyed declares each processor that keeps state by key, with a node of its name.
var keyed = map[string]func(s records){
	"inbox": func(s records) { inbox.Dedupe(s, "inbox", valueOf, inbox.Forever()) },
	"ledger": func(s records) {
		ledger.Post(s, "ledger", noContribution)
	},
	"windowed": func(s records) {
		ledger.PostWindowed(s, "windowed", ledger.Tumbling(time.Hour), noContribution)
	},
	"projection": func(s records) {
		projection.Latest(s, "projection", func(record) (int64, error) { return 1, nil },
			func(_ string, _ bool, r record) (string, error) { return r.Value, nil }, schemas.String())
	},
	"transition": func(s records) {
		machine := transition.Machine[string]{Initial: []string{"a"}, Next: map[string][]string{"a": nil}}
		transition.Guard(s, "transition", machine, func(record) (transition.Transition[string], error) {
			return transition.Transition[string]{}, nil
		})
	},
	"effect": func(s records) {
		effect.Perform(s, "effect", noRequest, noCall)
	},
}

func valueOf(r record) (string, error) { return r.Value, nil }

func noContribution(record) (ledger.Contribution, error) { return ledger.Contribution{}, nil }

func noRequest(record) (effect.Request, error) { return effect.Request{}, nil }

func noCall(context.Context, effect.Call) ([]byte, error) { return nil, nil }

// TestKeysAreInOneTask: what keeps state by key refuses a stream whose key was changed, unless it
// was partitioned by the new one or is said to be. An inbox that works globally takes any stream,
// and hands on one that is partitioned by something else if nothing brings it back.
func TestKeysAreInOneTask(t *testing.T) {
	globally := inbox.Globally(schemas.String(), schemas.String())
	for way, c := range map[string]struct {
		stream func(s records) records
		by     string
	}{
		"as it came":  {stream: func(s records) records { return s }},
		"changed":     {stream: func(s records) records { return topology.SelectKey(s, "select", valueOf) }, by: "select"},
		"partitioned": {stream: func(s records) records { return moved(topology.SelectKey(s, "select", valueOf)) }},
		"known":       {stream: func(s records) records { return topology.SelectKey(s, "select", valueOf).Copartitioned() }},
		"by id": {stream: func(s records) records {
			return inbox.Dedupe(topology.SelectKey(s, "select", valueOf), "before", valueOf, inbox.Forever(), globally, inbox.StayByID()).Accepted()
		}, by: "before"},
		"by id and back": {stream: func(s records) records {
			return inbox.Dedupe(s, "before", valueOf, inbox.Forever(), globally).Accepted()
		}},
		"duplicates by id": {stream: func(s records) records {
			return inbox.Dedupe(s, "before", valueOf, inbox.Forever(), globally).Duplicates()
		}, by: "before"},
	} {
		for name, declare := range keyed {
			b := topology.NewBuilder("app", topology.DeadLetters("dead"))
			declare(c.stream(topology.From(b, topology.Topic("in", schemas.String(), schemas.String()))))
			_, err := b.Build()
			if c.by == "" {
				if err != nil {
					t.Errorf("%s, %s: Build returned %v", way, name, err)
				}
				continue
			}
			var failed *topology.BuildError
			if !errors.As(err, &failed) || len(failed.Mistakes) != 1 || failed.Mistakes[0].Node != name ||
				!strings.HasPrefix(failed.Mistakes[0].Err.Error(), "the key may have been changed by node "+c.by+" (") {
				t.Errorf("%s, %s: Build returned %v", way, name, err)
			}
		}
	}
}

func moved(s records) records {
	return topology.RepartitionWith(s, "moved", schemas.String(), schemas.String())
}
