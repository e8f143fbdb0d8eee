// Package declare is what the declarations of all processors have in common: options, the mistakes
// in them, and the node that comes of it. It belongs to the goroutine that declares the topology.
package declare

import (
	"errors"
	"fmt"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// Common is what the options of every processor can say. The settings of a processor embed it.
type Common struct {
	// Keys is a schemas.Codec[K], whose type parameter only the declaration can check, or nil.
	Keys      any
	reactions []reaction
	mistakes  []error
}

type reaction struct {
	class  topology.Class
	policy topology.Policy
}

// SetKeys sets Keys. The error is a mistake of the declaration.
func (c *Common) SetKeys(codec any) error {
	if codec == nil {
		return errors.New("Key: the codec is nil")
	}
	c.Keys = codec
	return nil
}

// OnError sets the reaction to errors of class. The topology checks it.
func (c *Common) OnError(class topology.Class, policy topology.Policy) error {
	c.reactions = append(c.reactions, reaction{class, policy})
	return nil
}

// Reactions returns the reactions as options of an operator that belongs to the processor.
func (c *Common) Reactions() []topology.NodeOption {
	opts := make([]topology.NodeOption, len(c.reactions))
	for i, r := range c.reactions {
		opts[i] = topology.OnError(r.class, r.policy)
	}
	return opts
}

// Mistake notes what is wrong with the declaration; nil is nothing.
func (c *Common) Mistake(err error) {
	if err != nil {
		c.mistakes = append(c.mistakes, err)
	}
}

// Wrong reports whether a mistake was noted.
func (c *Common) Wrong() bool { return len(c.mistakes) > 0 }

// Apply applies options to the settings that c is a part of, and notes the mistakes in them.
func Apply[S any, O ~func(s *S) error](c *Common, s *S, opts []O) {
	for _, opt := range opts {
		if opt == nil {
			c.Mistake(errors.New("an option is nil"))
			continue
		}
		c.Mistake(opt(s))
	}
}

// Node declares the node of a processor that keeps state by the key of its records, and emits under
// that key. Its mistakes are at the line of the user's program.
func Node[K, V any](
	s topology.Stream[K, V], name string, c *Common, stores ...topology.AnyStore,
) *topology.Node[K, V] {
	return Unkeyed(s, name, c, stores...).Keyed().Copartitioned()
}

// Unkeyed declares the node of a processor whose state has nothing to do with the keys of what it
// gets, or that emits under other keys.
func Unkeyed[K, V any](
	s topology.Stream[K, V], name string, c *Common, stores ...topology.AnyStore,
) *topology.Node[K, V] {
	node := topology.Stateful(s, name, stores...)
	for _, err := range c.mistakes {
		node.Mistake(err)
	}
	React(node, c)
	return node
}

// React gives a node the reactions of the processor that it belongs to.
func React[K, V any](node *topology.Node[K, V], c *Common) {
	for _, r := range c.reactions {
		node.OnError(r.class, r.policy)
	}
}

// Readable reads the first row of a store when a task is opened, and returns why it cannot be read.
// Where every row says with what settings it was written, a program with others never writes beside
// them: its tasks do not open.
func Readable[K, V any](rows state.KeyValue[K, V]) error {
	for _, err := range rows.All() {
		return err
	}
	return nil
}

// Use is what an option or its absence requires for the use of a stream of a processor, for Build
// to compare with the topology.
type Use struct {
	// Stream is the name of the method that returns the stream.
	Stream string
	// Never says why no record ever goes there, and what to do; empty if records can go there.
	Never string
	// Needed says why something has to use the stream, and what to do; empty if nothing has to.
	Needed string
}

// Emitted is the use of a stream of records that fail unless an option emits them. The option is
// named after the stream: EmitConflicts for Conflicts. record is one of them in words, such as "a
// conflict".
func Emitted(stream, record string, emitted bool) Use {
	option := "Emit" + stream
	if emitted {
		return Use{Stream: stream, Needed: option + " emits records there, and they would be lost; use " + stream + ", or remove " + option}
	}
	return Use{Stream: stream, Never: record + " fails; " + option + " emits it instead"}
}

// CheckUse has Build compare the use of an outlet of node with what is said of it. It does nothing
// if a mistake in the options was noted: one mistake is enough.
func CheckUse[K, V, K2, V2 any](node *topology.Node[K, V], c *Common, out topology.OutletOf[K2, V2], use Use) {
	if c.Wrong() {
		return
	}
	node.Check(func() error {
		switch used := out.Connected(); {
		case used && use.Never != "":
			return fmt.Errorf("%s is used, but %s", use.Stream, use.Never)
		case !used && use.Needed != "":
			return fmt.Errorf("nothing uses %s: %s", use.Stream, use.Needed)
		}
		return nil
	})
}
