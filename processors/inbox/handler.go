package inbox

import (
	"strconv"

	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/processors/internal/payload"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// HeaderFirstSeen is the header of duplicates and conflicts that tells the timestamp of the first
// record under the id, in milliseconds since the epoch, as decimal text.
const HeaderFirstSeen = "onceward.inbox.first-seen"

const (
	errConflict = schemas.Reason("the id was seen before with another payload")
	errLate     = schemas.Reason("the record is older than the dedupe window, so it is unknown whether its id was seen")
	errRepeated = schemas.Reason("the business key was seen before, under another id and with the same payload")
	errUnstable = schemas.Reason("the function that reads the id returns another one for the same record; " +
		"an id is a fact of the record, and no random number or time of processing")
)

// reader reads an identity off a record.
type reader[K, V any] func(r topology.Record[K, V]) (string, error)

// parts are what the handlers of an inbox are made of.
type parts[K, V any] struct {
	*settings
	id        reader[K, V]
	newHasher func() payload.Hasher[K, V]
	business  reader[K, V]
	entries   memoryOf[Entry]
	claims    memoryOf[Claim]
}

func (p *parts[K, V]) stores(name string) []topology.AnyStore {
	stores := []topology.AnyStore{p.entries.store()}
	if p.business != nil {
		stores = append(stores, p.claims.store())
	}
	if p.archive != nil {
		stores = append(stores, archiveStore(name))
	}
	return stores
}

// handler returns the handler of a task.
func (p *parts[K, V]) handler(in Inbox[K, V], t *topology.Setup) *handler[K, V] {
	h := &handler[K, V]{
		id:                p.id,
		probes:            probesMax,
		payload:           p.newHasher(),
		seen:              p.entries.in(t),
		accept:            in.accepted.In(t),
		duplicate:         in.duplicates.In(t),
		conflict:          in.conflicts.In(t),
		late:              in.late.In(t),
		missing:           in.missing.In(t),
		malformed:         in.malformed.In(t),
		settings:          p.settings,
		usesDuplicates:    in.duplicates.Connected(),
		acceptedCounter:   t.Counter("accepted"),
		duplicatesCounter: t.Counter("duplicates"),
		conflictsCounter:  t.Counter("conflicts"),
		missingCounter:    t.Counter("missing"),
		malformedCounter:  t.Counter("malformed"),
		lateCounter:       t.Counter("late"),
		log:               in.decisions.In(t),
		name:              in.name,
	}
	if p.business != nil {
		h.guard = &guard[K, V]{key: p.business, claims: p.claims.in(t)}
	}
	if p.archive != nil {
		h.archive = &archive{
			queue: archiveStore(in.name).In(t), retention: p.retention.of.Milliseconds(),
			emit: in.archived.In(t), archived: t.Counter("archived"),
		}
	}
	return h
}

// handler is the inbox of one task.
type handler[K, V any] struct {
	id reader[K, V]
	// probes is how many ids are still asked for twice.
	probes  int
	payload payload.Hasher[K, V]
	seen    *memory[Entry]
	// settings are those of the declaration.
	settings *settings
	// guard and archive are nil where they are not declared.
	guard   *guard[K, V]
	archive *archive

	accept, duplicate, conflict, late, missing, malformed topology.Emit[K, V]
	// usesDuplicates spares the headers of duplicates that nothing uses.
	usesDuplicates bool

	acceptedCounter, duplicatesCounter, conflictsCounter, lateCounter, missingCounter, malformedCounter *topology.Counter

	// log is nil if the decisions are not used. name is that of the store.
	log  decision.Log
	name string
}

// tell tells of a decision. first is the id of the record that had the business key first, where
// that is why.
func (h *handler[K, V]) tell(c *topology.Context, outcome, id, first string, why schemas.Reason) error {
	if h.log == nil {
		return nil
	}
	d := decision.Decision{Outcome: outcome, Reason: string(why), Subject: id, Names: first}
	if id != "" {
		d.Store, d.Row = h.name, []byte(id)
	}
	return h.log(c, d)
}

func (h *handler[K, V]) handle(c *topology.Context, r topology.Record[K, V]) error {
	id, err := h.id(r)
	if err != nil {
		return h.isUnusable(c, &r, unusableID("", err))
	}
	if h.probes > 0 {
		h.probes--
		if err := probe(h.id, r, id); err != nil {
			return err
		}
	}
	return h.decide(c, &r, id)
}

// probesMax is how many ids a task asks for twice after it was opened: enough to tell an id that is
// made up from one that is read, and too few to cost anything.
const probesMax = 16

// probe asks for the id of r once more.
func probe[K, V any](id reader[K, V], r topology.Record[K, V], first string) error {
	if again, err := id(r); err != nil || again != first {
		return topology.Fail(topology.Config, errUnstable)
	}
	return nil
}

// decide decides about a record with that id.
func (h *handler[K, V]) decide(c *topology.Context, r *topology.Record[K, V], id string) error {
	missing := id == "" && h.settings.allowMissing
	if missing && h.guard == nil {
		return h.isMissing(c, r)
	}
	if !missing {
		if u := unusableID(id, nil); u != nil {
			return h.isUnusable(c, r, u)
		}
	}
	entry := Entry{Outcome: Accepted, FirstSeen: r.Timestamp}
	var err error
	if entry.Payload, err = h.payload(*r); err != nil {
		return identity.Refused(err)
	}
	if !missing {
		var first Entry
		p, err := h.seen.putIfAbsent(id, &entry, &first, r.Timestamp)
		switch {
		case err != nil:
			return err
		case p == state.Present:
			return h.again(c, r, id, &first, &entry.Payload)
		case p == state.TooLate:
			return h.tooLate(c, r, id)
		}
	}
	if h.guard != nil || h.archive != nil {
		done, err := h.extras(c, r, id, entry)
		if done || err != nil {
			return err
		}
	}
	if missing {
		return h.isMissing(c, r)
	}
	h.acceptedCounter.Inc()
	if h.log != nil {
		if err := h.tell(c, "accepted", id, "", ""); err != nil {
			return err
		}
	}
	return h.accept(c, *r)
}

// again processes a record whose id has a row.
func (h *handler[K, V]) again(
	c *topology.Context, r *topology.Record[K, V], id string, first *Entry, payload *[32]byte,
) error {
	if h.archive != nil {
		if err := h.archive.expire(c, r.Timestamp); err != nil {
			return err
		}
	}
	if first.Payload == *payload && first.Outcome != Disputed {
		if h.log == nil && !h.usesDuplicates {
			h.duplicatesCounter.Inc()
			return nil
		}
		return h.isDuplicate(c, r, id, "", first.FirstSeen, "")
	}
	if first.Payload == *payload {
		return h.disputedAgain(c, r, id, first.FirstSeen)
	}
	if !h.settings.emits.conflicts {
		return topology.Fail(topology.Conflict, errConflict)
	}
	return h.isConflict(c, r, id, "", first.FirstSeen, errConflict)
}

// disputedAgain handles a copy of a disputed record: it is a conflict for the reason of the first
// one. It names the record that had the business key first, unless that has expired.
func (h *handler[K, V]) disputedAgain(c *topology.Context, r *topology.Record[K, V], id string, firstSeen int64) error {
	if !h.settings.emits.conflicts {
		return topology.Fail(topology.Conflict, errBusinessConflict)
	}
	found, firstID := *r, ""
	if h.guard != nil {
		holder, known, err := h.guard.holder(*r)
		if err != nil {
			return err
		}
		if known {
			found, firstID, firstSeen = withHeader(*r, HeaderFirstID, []byte(holder.ID)), holder.ID, holder.FirstSeen
		}
	}
	return h.isConflict(c, &found, id, firstID, firstSeen, errBusinessConflict)
}

// extras is what business key and archive have to do with a record whose id is new. done says that
// it was not accepted.
func (h *handler[K, V]) extras(
	c *topology.Context, r *topology.Record[K, V], id string, entry Entry,
) (done bool, err error) {
	var holder Claim
	p := state.Absent
	if h.guard != nil {
		if holder, p, err = h.guard.claim(*r, id, entry.Payload); err != nil {
			return false, err
		}
	}
	switch {
	case p == state.TooLate: // records without an id have moved the time of the business keys, and not that of the ids
		if id != "" {
			if err := h.seen.remove(id); err != nil {
				return true, err
			}
		}
		return true, h.tooLate(c, r, id)
	case p == state.Absent:
	case holder.Payload == entry.Payload:
		entry.Outcome = Repeated
	case !h.settings.emits.conflicts:
		return true, topology.Fail(topology.Conflict, errBusinessConflict)
	default:
		entry.Outcome = Disputed
	}
	if entry.Outcome != Accepted && id != "" {
		if err := h.seen.update(id, entry); err != nil {
			return true, err
		}
	}
	if h.archive != nil && id != "" {
		if err := h.archive.expire(c, r.Timestamp); err != nil {
			return true, err
		}
		if err := h.archive.add(id, entry); err != nil {
			return true, err
		}
	}
	if entry.Outcome == Accepted {
		return false, nil
	}
	found := withHeader(*r, HeaderFirstID, []byte(holder.ID))
	if entry.Outcome == Repeated {
		return true, h.isDuplicate(c, &found, id, holder.ID, holder.FirstSeen, errRepeated)
	}
	return true, h.isConflict(c, &found, id, holder.ID, holder.FirstSeen, errBusinessConflict)
}

func (h *handler[K, V]) isDuplicate(
	c *topology.Context, r *topology.Record[K, V], id, first string, firstSeen int64, why schemas.Reason,
) error {
	h.duplicatesCounter.Inc()
	if h.log != nil {
		if err := h.tell(c, "duplicates", id, first, why); err != nil {
			return err
		}
	}
	if !h.usesDuplicates {
		return nil
	}
	return h.duplicate(c, withFirstSeen(*r, firstSeen))
}

func (h *handler[K, V]) isConflict(
	c *topology.Context, r *topology.Record[K, V], id, first string, firstSeen int64, why schemas.Reason,
) error {
	h.conflictsCounter.Inc()
	if err := h.tell(c, "conflicts", id, first, why); err != nil {
		return err
	}
	return h.conflict(c, withFirstSeen(*r, firstSeen))
}

// isMissing processes a record without an id that needs none.
func (h *handler[K, V]) isMissing(c *topology.Context, r *topology.Record[K, V]) error {
	h.missingCounter.Inc()
	if err := h.tell(c, "missing", "", "", ""); err != nil {
		return err
	}
	return h.accept(c, *r)
}

func (h *handler[K, V]) tooLate(c *topology.Context, r *topology.Record[K, V], id string) error {
	if !h.settings.emits.late {
		return topology.Fail(topology.Validation, errLate)
	}
	h.lateCounter.Inc()
	if err := h.tell(c, "late", id, "", errLate); err != nil {
		return err
	}
	return h.late(c, *r)
}

// withFirstSeen returns r with the header, in place of one that an inbox before this one may have
// added.
func withFirstSeen[K, V any](r topology.Record[K, V], millis int64) topology.Record[K, V] {
	return withHeader(r, HeaderFirstSeen, strconv.AppendInt(nil, millis, 10))
}
