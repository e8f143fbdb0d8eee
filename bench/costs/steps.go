package costs

import "strings"

// Step is one of the steps of a record, in the order in which it takes them.
type Step struct {
	Name string
	// Where says who does it, and Goroutine on whose time.
	Where, Goroutine string
	// within are functions that are this step's with all that they call, as the beginnings of their
	// names: without type parameters, and without the path of the module for its own.
	within []string
	// otherwise are functions of libraries that are this step's where no step has the functions
	// around them.
	otherwise []string
	// reader makes reads of state a step of their own where a function with this beginning is the
	// next one outside of them.
	reader string
}

// module is left out of the names of its functions.
const module = "github.com/onceward/onceward/"

// reads are the functions that a read of state enters by.
var reads = []string{"state.(*taskStore).Get", "topology.(*watchedStore).Get"}

const (
	client = "github.com/twmb/franz-go/pkg/kgo."
	wire   = "github.com/twmb/franz-go/pkg/kmsg."
	pebble = "github.com/cockroachdb/pebble/v2"
)

// rest is the step of what no other one names.
const rest = "the rest: the scheduler, timers, and what no step names"

// Steps are the steps of the workload ledger. The first one that names a function has it.
var Steps = []Step{
	{
		Name: "collect garbage", Where: "runtime", Goroutine: "runtime",
		within: []string{"runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gcStart",
			"runtime.gcMarkDone", "runtime.wbBufFlush", "runtime.gcDrain"},
	},
	{
		Name: "fetch, and decode record batches", Where: "client; `session/session.go` work", Goroutine: "client, dispatcher",
		within: []string{client + "(*source).", client + "(*cursor", client + "ProcessFetchPartition", client + "(*consumer)",
			client + "(*brokerCxn).handleResp", client + "(*brokerCxn).readRe", client + "(*brokerCxn).readConn", client + "(*Client).Poll",
			wire + "(*FetchRe", "txn/internal/broker.(*Group).Poll", "txn/internal/session.(*Session).work"},
	},
	{
		Name: "count, and hand over to the task's queue", Where: "`dispatch/dispatcher.go`, `task/queue.go` enqueue", Goroutine: "dispatcher",
		within: []string{"txn/internal/dispatch.(*Dispatcher).Dispatch", "txn/internal/task.(*queue).enqueue"},
	},
	{
		Name: "take the oldest record of the inputs", Where: "`task/queue.go` pull, next", Goroutine: "worker",
		within: []string{"txn/internal/task.(*Task).Next", "txn/internal/task.(*queue)."},
	},
	{
		Name: "decode key and value, check the timestamp", Where: "`topology/edge.go` read", Goroutine: "worker",
		within: []string{"topology.(*intake).read", "topology.(*intake).record"},
	},
	{
		Name:  "see whether the id is there: overlay, rounds in flight, buffer, filter, Pebble",
		Where: "`state/task.go` Get, `pebblestore/database.go` Get", Goroutine: "worker", reader: "processors/inbox.",
	},
	{
		Name: "id, SHA-256 of the payload, and decide", Where: "`processors/inbox`", Goroutine: "worker", within: []string{"processors/inbox."},
	},
	{
		Name: "see whether the contribution is there, and read the balance", Where: "the same once more", Goroutine: "worker",
		reader: "processors/ledger.",
	},
	{
		Name: "add up", Where: "`processors/ledger`", Goroutine: "worker", within: []string{"processors/ledger."},
	},
	{
		Name: "three writes into the overlay", Where: "`state/overlay.go` put", Goroutine: "worker",
		within: []string{"state.(*taskStore).write", "state.(*taskStore).Put", "state.(*overlay).put", "topology.(*watchedStore).Put",
			"state.(*Task).Mark", "state.(*Task).Freeze"},
	},
	{
		Name: "encode the output, choose its partition", Where: "`topology/edge.go` writeOutput", Goroutine: "worker",
		within: []string{"topology.writeOutput", "topology.(*sink).", "bench/workload."},
	},
	{
		Name: "encode outputs and changelog records into their batches", Where: "`broker/batch/set.go` Add", Goroutine: "worker, committer",
		within: []string{"txn/internal/broker/batch.Add", "txn/internal/worker.(*outputs).add", "txn/internal/broker.(*Producer).Add"},
	},
	{
		Name:  "pass it on from node to node, journal, counters, bounds of the round",
		Where: "`topology/graph.go`, `worker/compute.go`, `task/contribution.go` Took", Goroutine: "worker",
		within: []string{"topology.", "txn/internal/worker.(*Worker).compute", "txn/internal/worker.(*Worker).process",
			"txn/internal/worker.(*slice)", "txn/internal/worker.(*round)", "txn/internal/worker.(*Worker).afterEntry",
			"txn/internal/task.(*Task).Process", "txn/internal/task.(*Contribution).Took"},
	},
	{
		Name: "order the round's writes", Where: "`state/layer.go`", Goroutine: "committer",
		within: []string{"state.(*Layer).order", "state.(*Layer).logInOrder", "state.sort"},
	},
	{
		Name: "make changelog records, and hand them over", Where: "`worker/flush.go` sendChangelogs", Goroutine: "committer",
		within: []string{"txn/internal/worker.(*committer).sendChangelogs"},
	},
	{
		Name: "hand batches to the sender", Where: "`worker/committer.go` send", Goroutine: "committer",
		within: []string{"txn/internal/worker.(*committer).send"},
	},
	{
		Name: "seal batches, and send; note what is acknowledged", Where: "`broker/produce`, client", Goroutine: "request, client",
		within: []string{client + "(*brokerCxn).write", client + "(*broker).", wire + "(*ProduceRe", "txn/internal/broker/produce.",
			"txn/internal/broker/batch.(*Batch).Seal", "txn/internal/broker/batch.(*Batch).AppendTo",
			"txn/internal/worker.(*committer).waitAcknowledged"},
	},
	{
		Name:  "apply: a batch, and into the buffer or the memtable",
		Where: "`pebblestore/database.go` Apply", Goroutine: "committer",
		within: []string{"txn/internal/worker.(*committer).apply", "state.(*Task).Apply",
			"state/pebblestore.(*database).Apply"},
	},
	{
		Name: "offsets, and the end of the transaction", Where: "`worker/committer.go`", Goroutine: "committer",
		within: []string{"txn/internal/worker.(*committer)."},
	},
	{
		Name: "flush tables, and compact them; build filters", Where: "Pebble, `pebblestore/flush.go`", Goroutine: "Pebble",
		within:    []string{"state/pebblestore.(*database).runFlusher", "state/pebblestore.(*database).fill"},
		otherwise: []string{pebble},
	},
	{
		Name: "give the round back: bytes, counts, metrics", Where: "`worker/effects.go` retire", Goroutine: "worker",
		within: []string{"txn/internal/worker.(*Worker).retire", "txn/internal/worker.(*Worker).giveBack", "txn/internal/worker.",
			"txn/internal/task.", "state.(*Task).Retire", "state.(*overlay).", "state.(*Layer)."},
	},
	{Name: rest, Goroutine: "all"},
}

// plain returns a function's name without type parameters, and without the path of the module.
func plain(function string) string {
	function = strings.TrimPrefix(function, module)
	for {
		from := strings.IndexByte(function, '[')
		if from < 0 {
			return function
		}
		to, depth := from, 0
		for ; to < len(function); to++ {
			switch function[to] {
			case '[':
				depth++
			case ']':
				depth--
			}
			if depth == 0 {
				break
			}
		}
		function = function[:from] + function[min(to+1, len(function)):]
	}
}

func begins(function string, with []string) bool {
	for _, w := range with {
		if strings.HasPrefix(function, w) {
			return true
		}
	}
	return false
}
