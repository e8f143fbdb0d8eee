package cli_test

import (
	"context"
	"time"

	"github.com/onceward/onceward/processors/deadletter"
	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/processors/transition"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// order is what the topology with all processors reads.
type order struct {
	ID      string `json:"id"`
	Version int64  `json:"version"`
	Pieces  int64  `json:"pieces"`
}

type orderRecord = topology.Record[string, order]

func orderID(r orderRecord) (string, error) { return r.Value.ID, nil }

func orderVersion(r orderRecord) (int64, error) { return r.Value.Version, nil }

// officeTopology has every processor, with the options of which a contract tells. Nothing runs it.
func officeTopology() *topology.Topology {
	codec := schemas.JSON[order]()
	b := topology.NewBuilder("office", topology.DeadLetters("dead"))
	orders := topology.From(b, topology.Topic("orders", schemas.String(), codec), topology.RetryTopics(time.Second, time.Minute))
	screened := orders.Peek("screen", func(orderRecord) error { return nil },
		topology.OnError(topology.Overload, topology.Policy{Action: topology.Delay, Attempts: 5, Then: topology.DeadLetter}))

	requests := inbox.Dedupe(screened, "requests", orderID, inbox.Retain(7*24*time.Hour), inbox.TolerateLongerTopics(),
		inbox.Archive(topology.Topic("requests-archive", schemas.String(), schemas.JSON[inbox.Entry]())), inbox.PayloadWithout("id"),
		inbox.BusinessKey(func(r orderRecord) (string, error) { return r.Key, nil }), inbox.EmitConflicts())
	deadletter.Send(requests.Conflicts(), "disputed", topology.Conflict, "two requests under one id")
	once := inbox.Dedupe(requests.Accepted(), "once", orderID, inbox.Forever(), inbox.Globally(schemas.String(), codec))
	accepted := topology.RepartitionWith(once.Accepted(), "by-key", schemas.String(), codec, topology.ParkKeys())

	pieces := func(r orderRecord) (ledger.Contribution, error) {
		return ledger.Contribution{ID: r.Value.ID, Amounts: []int64{r.Value.Pieces}}, nil
	}
	ledger.Post(accepted, "stock", pieces)
	ledger.PostWindowed(accepted, "hours", ledger.Windows{Size: time.Hour, Advance: 15 * time.Minute}, pieces,
		ledger.EventTime(func(r orderRecord) (int64, error) { return r.Timestamp, nil }))

	fold := func(_ order, _ bool, r orderRecord) (order, error) { return r.Value, nil }
	first := projection.Latest(accepted, "latest", orderVersion, fold, codec, projection.FirstVersion(1),
		projection.Incarnation(func(orderRecord) (int64, error) { return 1, nil }),
		projection.RepairGaps(codec, projection.Limits{Records: 100, StreamTime: time.Hour}))
	first.Abandoned().Into(topology.Topic("abandoned", schemas.String(), schemas.JSON[projection.Abandoned[order]]()))
	first.Repairs().Into(topology.Topic("repairs", schemas.String(), schemas.JSON[projection.Repair]()))
	second := projection.Latest(accepted, "latest-2", orderVersion, fold, codec, projection.DefinitionVersion(2), projection.Sparse())
	commands := topology.From(b, topology.Topic("commands", schemas.Bytes(), schemas.JSON[projection.Command]()))
	projection.Choose(commands, "served", codec, []projection.Defined[string, order]{
		projection.Define(1, first.Changes()), projection.Define(2, second.Changes()),
	})

	machine := transition.Machine[string]{Initial: []string{"placed"}, Next: map[string][]string{"placed": {"paid"}, "paid": nil}}
	guarded := transition.Guard(accepted, "lifecycle", machine, func(r orderRecord) (transition.Transition[string], error) {
		return transition.Transition[string]{ID: r.Value.ID, To: "placed", Version: r.Value.Version}, nil
	}, transition.Versioned())

	call := func(context.Context, effect.Call) ([]byte, error) { return nil, nil }
	captures := effect.Perform(guarded.Accepted(), "capture", func(r orderRecord) (effect.Request, error) {
		return effect.Request{ID: r.Value.ID, Type: "capture", Target: "gateway"}, nil
	}, call)
	guarded.Accepted().Peek("patient", func(orderRecord) error { return nil }, topology.OnError(topology.Transient,
		topology.Policy{Action: topology.Park, Backoff: time.Second, BackoffMax: time.Minute}))
	effect.Resolve(captures, topology.From(b, topology.Topic("resolutions", schemas.String(), schemas.JSON[effect.Resolution]())), "people")
	return mustBuild(b)
}
