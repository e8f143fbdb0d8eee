package inbox

import (
	"github.com/onceward/onceward/processors/internal/payload"
	"github.com/onceward/onceward/topology"
)

// clauses declares the consumer contract of an inbox with these settings. Its dedupe window is
// declared separately.
func clauses[K, V any](node *topology.Node[K, V], set *settings, global bool) {
	node.Clause(topology.IdempotencyKey, "the id that is read off each record; with another payload it is a conflict, which "+
		fate(set.emits.conflicts)).
		Clause(topology.OnDuplicate, "the same id with the same payload is counted and has no effect")
	if set.binaryIDs {
		node.Clause(topology.IdempotencyKey, "the id is bytes, and is stored and shown in hexadecimal digits")
	}
	if compared := payload.Clause(set.payload); compared != "" {
		node.Clause(topology.OnDuplicate, compared)
	}
	same := "the copies of a record have the same key"
	if set.business != nil {
		same = "the copies of a record, and records with the same business key, have the same key"
		node.Clause(topology.IdempotencyKey, "a second one: the business key that is read off each record, empty for one that needs none").
			Clause(topology.OnDuplicate, "another id with a business key that was seen is a duplicate with the same payload, and with another "+
				"payload a conflict")
	}
	if global {
		node.Clause(topology.KeyAssumption, "none: copies of a record may have any key, and be in any partition").
			Clause(topology.OutOfOrder, "records of one key with several ids overtake each other, because those ids are in several partitions")
	} else {
		node.Clause(topology.KeyAssumption, same)
	}
	if set.stayByID {
		node.Clause(topology.KeyAssumption, "what is accepted stays in the partition of its id, so that records of one key are in several tasks")
	}
	missing, malformed := fate(set.emits.missing), fate(set.emits.malformed)
	switch {
	case set.allowMissing:
		node.Clause(topology.OnDuplicate, "a record without an id is processed as often as it comes").
			Clause(topology.OnPoison, "a record with an id that cannot be read has no effect and "+malformed)
	case missing == malformed:
		node.Clause(topology.OnPoison, "a record without an id, or with one that cannot be read, has no effect and "+missing)
	default:
		node.Clause(topology.OnPoison, "a record without an id has no effect and "+missing).
			Clause(topology.OnPoison, "a record with an id that cannot be read has no effect and "+malformed)
	}
	if set.retention.of == 0 {
		node.Clause(topology.Retention, "ids are kept without a limit").
			Clause(topology.OnReplay, "what was accepted is a duplicate and has no effect")
	} else {
		node.Clause(topology.OutOfOrder, "a record that is older than what is known is late, is not taken for new, and "+fate(set.emits.late)).
			Clause(topology.OnReplay, "what was accepted is a duplicate while it is known, and late after that; neither has an effect")
	}
	if set.archive != nil {
		node.Clause(topology.Retention, "an expired id is written to "+set.archive.Name())
	}
}

// fate says what follows for a record that is not accepted.
func fate(emitted bool) string {
	if emitted {
		return "goes to a stream of its own"
	}
	return "fails"
}
