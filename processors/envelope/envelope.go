package envelope

import "github.com/onceward/onceward/topology"

// The headers of the ids. Their values are UTF-8.
const (
	HeaderMessageID      = "onceward.message-id"
	HeaderEventID        = "onceward.event-id"
	HeaderIdempotencyKey = "onceward.idempotency-key"
	HeaderAggregateID    = "onceward.aggregate-id"
	HeaderCorrelationID  = "onceward.correlation-id"
	HeaderCausationID    = "onceward.causation-id"
)

// The headers of CloudEvents, in Kafka's binary mode, that say the same.
const (
	cloudEventID       = "ce_id"
	cloudCorrelationID = "ce_correlationid"
	cloudCausationID   = "ce_causationid"
)

// Envelope has the ids of a record, empty where there are none.
type Envelope struct {
	MessageID, EventID, IdempotencyKey, AggregateID, CorrelationID, CausationID string
}

// Of returns the ids that are in the headers of r.
func Of[K, V any](r topology.Record[K, V]) Envelope {
	return Envelope{
		MessageID:      text(r, HeaderMessageID, ""),
		EventID:        text(r, HeaderEventID, cloudEventID),
		IdempotencyKey: text(r, HeaderIdempotencyKey, ""),
		AggregateID:    text(r, HeaderAggregateID, ""),
		CorrelationID:  text(r, HeaderCorrelationID, cloudCorrelationID),
		CausationID:    text(r, HeaderCausationID, cloudCausationID),
	}
}

// MessageID is an id function: the message id of r, or "". The error is nil.
func MessageID[K, V any](r topology.Record[K, V]) (string, error) {
	return text(r, HeaderMessageID, ""), nil
}

// EventID is an id function: the event id of r, or "". The error is nil. All that a topology makes
// of one record has its event id, unless [Caused] has given it another: an inbox behind several
// outputs of one record drops all but one.
func EventID[K, V any](r topology.Record[K, V]) (string, error) {
	return text(r, HeaderEventID, cloudEventID), nil
}

// IdempotencyKey is an id function: the idempotency key of r, or "". The error is nil. What is said
// of [EventID] holds for it too.
func IdempotencyKey[K, V any](r topology.Record[K, V]) (string, error) {
	return text(r, HeaderIdempotencyKey, ""), nil
}

// text returns the header of that key, or the other one where it is missing.
func text[K, V any](r topology.Record[K, V], key, other string) string {
	if value, _ := r.Header(key); len(value) > 0 || other == "" {
		return string(value)
	}
	value, _ := r.Header(other)
	return string(value)
}
