package inbox

import (
	"errors"

	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/internal/declare"
	"github.com/onceward/onceward/processors/internal/payload"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// Inbox is an inbox in a topology that is being declared. Each of its streams may be used any
// number of times. Options such as [EmitConflicts] say which records a stream has; Build reports a
// stream that is used without its option, and an option whose stream is not used.
type Inbox[K, V any] struct {
	name       string
	retention  retention
	stream     topology.Stream[K, V]
	accepted   topology.OutletOf[K, V]
	duplicates topology.OutletOf[K, V]
	conflicts  topology.OutletOf[K, V]
	late       topology.OutletOf[K, V]
	missing    topology.OutletOf[K, V]
	malformed  topology.OutletOf[K, V]
	archived   topology.OutletOf[string, Entry]
	decisions  decision.Outlet
}

// Dedupe declares an inbox: a node of that name, with a store of that name. The function id returns
// the id of a record, and "" if it has none; its error is of class Validation unless it has a
// class. How long ids are kept has to be stated, with [Retain] or [Forever]. A type V whose JSON
// form would hide conflicts needs [PayloadCodec] or [PayloadHash].
func Dedupe[K, V any](
	s topology.Stream[K, V], name string, id func(r topology.Record[K, V]) (string, error), opts ...Option,
) Inbox[K, V] {
	set := &settings{}
	declare.Apply(&set.Common, set, opts)
	if id == nil {
		set.Mistake(errors.New("the function that reads the id is nil"))
	}
	if set.binaryIDs {
		id = hexadecimal(id)
	}
	newHasher, err := payload.HasherFor[K, V](set.payload)
	set.Mistake(err)
	business, err := businessReader[K, V](set.business)
	set.Mistake(err)
	detour, global, err := detourOf[K, V](set)
	set.Mistake(err)
	set.check(global)
	p := &parts[K, V]{
		settings: set, id: id, newHasher: newHasher, business: business,
		entries: memoryOf[Entry]{name, entryCodec{}, set.retention.of},
		claims:  memoryOf[Claim]{name + "-business", claimCodec{}, set.retention.of},
	}
	if !global {
		node := declare.Node(s, name, &set.Common, p.stores(name)...)
		in := outletsOf[K, V](node, name, set)
		clauses(node, set, false)
		checkUses(node, set, in)
		node.Process(func(t *topology.Setup) (topology.Handler[K, V], error) {
			return p.handler(in, t).handle, nil
		})
		in.stream = in.accepted.Stream()
		return in
	}
	// Records leave the node with their own key again, in the partition of the id.
	node := declare.Unkeyed(detour.there(s, name, id, set), name, &set.Common, p.stores(name)...).Keyed()
	in := outletsOf[K, V](node, name, set)
	clauses(node, set, true)
	checkUses(node, set, in)
	node.Process(func(t *topology.Setup) (topology.Handler[topology.Option[string], V], error) {
		return detour.handler(p.handler(in, t)), nil
	})
	if in.stream = in.accepted.Stream(); !set.stayByID {
		in.stream = detour.back(in.stream, name)
	}
	return in
}

// outletsOf declares what leaves the node of an inbox, and for how long it remembers.
func outletsOf[K, V, NK any](node *topology.Node[NK, V], name string, set *settings) Inbox[K, V] {
	in := Inbox[K, V]{
		name:       name,
		retention:  set.retention,
		accepted:   topology.Outlet[K, V](node, "accepted"),
		duplicates: topology.Outlet[K, V](node, "duplicates"),
		conflicts:  topology.Outlet[K, V](node, "conflicts"),
		late:       topology.Outlet[K, V](node, "late"),
		missing:    topology.Outlet[K, V](node, "missing"),
		malformed:  topology.Outlet[K, V](node, "malformed"),
		decisions:  decision.Declare(node),
	}
	if set.retention.of > 0 {
		node.DedupeWindow(set.retention.of, set.retention.tolerated)
	}
	if set.archive != nil {
		in.archived = topology.Outlet[string, Entry](node, "archived")
		in.archived.Stream().IntoNamed(name+"-archive-sink", *set.archive)
	}
	return in
}

// checkUses has Build compare the options that emit records with the use of their streams.
func checkUses[K, V, NK any](node *topology.Node[NK, V], set *settings, in Inbox[K, V]) {
	late, missing := declare.Emitted("Late", "a late record", set.emits.late), declare.Emitted("Missing", "a record without an id", set.emits.missing)
	if !set.retention.expires {
		late = declare.Use{Stream: "Late", Never: "an inbox with Forever has no late records; Retain lets ids expire"}
	}
	if set.allowMissing {
		missing = declare.Use{Stream: "Missing", Never: "AllowMissingID accepts records without an id; EmitMissing emits them instead"}
	}
	declare.CheckUse(node, &set.Common, in.conflicts, declare.Emitted("Conflicts", "a conflict", set.emits.conflicts))
	declare.CheckUse(node, &set.Common, in.late, late)
	declare.CheckUse(node, &set.Common, in.missing, missing)
	declare.CheckUse(node, &set.Common, in.malformed, declare.Emitted("Malformed", "a record with an unusable id", set.emits.malformed))
}

// Accepted returns the stream of the records that are seen for the first time, or have no id and
// need none, unchanged.
func (i Inbox[K, V]) Accepted() topology.Stream[K, V] { return i.stream }

// Duplicates returns the stream of the records whose id, or [BusinessKey], was accepted before with
// the same payload. They carry [HeaderFirstSeen].
func (i Inbox[K, V]) Duplicates() topology.Stream[K, V] { return i.duplicates.Stream() }

// Conflicts returns the stream of the records whose id, or [BusinessKey], was accepted before with
// another payload. They carry [HeaderFirstSeen]. It needs [EmitConflicts]; without the option a
// conflict fails.
func (i Inbox[K, V]) Conflicts() topology.Stream[K, V] { return i.conflicts.Stream() }

// Late returns the stream of the records that are older than the ids that an inbox with [Retain]
// keeps, unchanged. It needs [EmitLate]; without the option a late record fails. To an inbox with
// [Forever] no record is late.
func (i Inbox[K, V]) Late() topology.Stream[K, V] { return i.late.Stream() }

// Missing returns the stream of the records that have no id. They carry [HeaderReason]. It needs
// [EmitMissing]; without the option such a record fails, or is accepted with [AllowMissingID].
func (i Inbox[K, V]) Missing() topology.Stream[K, V] { return i.missing.Stream() }

// Malformed returns the stream of the records with an invalid id. The id has more than 1024 bytes
// or is not valid UTF-8; or the function that reads it has returned an error without a class or of
// class Validation. They carry [HeaderReason]. The stream needs [EmitMalformed]; without the option
// such a record fails. A record for which the function returns an error of another class, such as
// Transient, always fails.
func (i Inbox[K, V]) Malformed() topology.Stream[K, V] { return i.malformed.Stream() }

// Decisions returns the stream of what the inbox has decided: one for each record that did not
// fail.
func (i Inbox[K, V]) Decisions() topology.Stream[[]byte, decision.Decision] {
	return i.decisions.Stream()
}

// Store returns the store of an inbox with [Forever], for queries and tests.
func (i Inbox[K, V]) Store() topology.Store[state.KeyValue[string, Entry]] { return Store(i.name) }

// RetainedStore returns the store of an inbox with [Retain], for queries and tests.
func (i Inbox[K, V]) RetainedStore() topology.Store[state.Dedupe[string, Entry]] {
	return RetainedStore(i.name, i.retention.of)
}
