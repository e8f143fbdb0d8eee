// Package decision defines what processors report about each record that they decide about: the
// outcome, the row, and the reason. Programs that keep evidence use it (package
// processors/evidence), and processors, which declare an [Outlet] beside those of their outcomes.
//
// # Contract
//
// A processor that decides about a record emits one decision for that, in the transaction in which
// it decides. A deferred record has two: that it waits, and later its outcome, in the turn of
// another record or of a clock. So a turn can have many decisions. A record that
// fails has none: it leaves nothing but its dead letter, which is its evidence. That also holds for
// a record that fails further down: a decision about what did not happen would be wrong.
//
// Decisions have an outlet of their own, beside those of the outcomes. A use of it changes nothing
// else.
//
// As long as nothing uses the stream, a decision costs one comparison with nil.
//
// # Concurrency
//
// An [Outlet] is a value that is used while the topology is declared. A [Log] belongs to its task.
package decision

import (
	"github.com/onceward/onceward/topology"
)

// Decision is one decision of a processor about one record. Row, Subject, Names and Given come from
// the record, and By and Note, where it says what a person has decided; no other field does.
type Decision struct {
	// Node is the processor's node. Log fills it in.
	Node string
	// Outcome is the word that the outcome is counted under, such as "accepted".
	Outcome string
	// Reason says why, where the outcome alone does not. It is a text of the program and quotes no
	// record.
	Reason string
	// Store is the store of the row that was read or written, empty if there is none.
	Store string
	// Row is the key of that row, encoded by the processor's codec for keys; nil if there is none.
	Row []byte
	// Subject is the id that the decision was about: of an event, a contribution, a transition, an
	// effect.
	Subject string
	// Names is the id that the subject names in its turn, or has the business key of: of the
	// contribution that it corrects or takes back, of the record that came first. It is empty if
	// there is none.
	Names string
	// By is the person whose decision it was, empty if it was the program's, and Note what they
	// said to it.
	By, Note string
	// Before and After are the versions of the row, where it has versions: what it had, and what it
	// has now.
	Before, After topology.Option[int64]
	// Given is the version that the record says it has, where it says one.
	Given topology.Option[int64]
	// Deferred says that this node or one before it had deferred the record. The decision was made
	// when the record was resumed (topology.Resume). Log fills it in.
	Deferred bool
}

// Outlet is the output of a processor's node for its decisions.
type Outlet struct {
	out topology.OutletOf[[]byte, Decision]
}

// Declare adds the outlet, which has the name "decisions", to the node of a processor.
func Declare[K, V any](node *topology.Node[K, V]) Outlet {
	return Outlet{topology.Outlet[[]byte, Decision](node, "decisions")}
}

// Stream returns the decisions. The key is the row; timestamp, headers and origin are those of the
// record that was decided about, also if it was deferred (topology.Resume). Then
// topology.Context.Source is the position of the record that caused the resume.
func (o Outlet) Stream() topology.Stream[[]byte, Decision] { return o.out.Stream() }

// A Log emits a decision about the record that the node is processing or has resumed
// (topology.Resume). The caller must return its error, like that of a topology.Emit. A Log is nil
// if the decisions are not used; then make none.
type Log func(c *topology.Context, d Decision) error

// In returns the Log for the handler that t prepares.
func (o Outlet) In(t *topology.Setup) Log {
	emit := o.out.In(t)
	if !o.out.Connected() {
		return nil
	}
	node := t.Node()
	return func(c *topology.Context, d Decision) error {
		d.Node, d.Deferred = node, c.Resumed()
		return emit(c, topology.Record[[]byte, Decision]{Key: d.Row, Value: d})
	}
}
