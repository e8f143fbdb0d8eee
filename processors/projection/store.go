package projection

import (
	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// storesOf returns the store for the projection itself, and for all other readers.
func storesOf[K, S any](
	name string, keys schemas.Codec[K], state schemas.Codec[S], definition uint16,
) (topology.Store[state.KeyValue[K, stored[S]]], topology.Store[state.KeyValue[K, Row[S]]]) {
	if state == nil {
		return topology.KeyValueStore[K, stored[S]](name, keys, nil), topology.KeyValueStore[K, Row[S]](name, keys, nil)
	}
	rows := rowCodec[S]{state: state, definition: definition}
	return topology.KeyValueStore(name, keys, schemas.Codec[stored[S]](rows)),
		topology.KeyValueStore(name, keys, schemas.Codec[Row[S]](ownRowCodec[S]{rows}))
}

// waitingStores are the stores of the records that wait.
type waitingStores[K, V any] struct {
	records topology.Store[state.KeyValue[parkedKey[K], parked[V]]]
	queues  topology.Store[state.KeyValue[K, queue]]
	codec   schemas.Codec[parked[V]]
}

func waitingStoresOf[K, V any](name string, keys schemas.Codec[K], values schemas.Codec[V]) waitingStores[K, V] {
	var at schemas.Codec[parkedKey[K]] = parkedKeyCodec[K]{keys}
	var records schemas.Codec[parked[V]] = parkedCodec[V]{value: values, null: identity.Null[V]()}
	return waitingStores[K, V]{
		records: topology.KeyValueStore(name+"-parked", at, records),
		queues:  topology.KeyValueStore(name+"-queues", keys, schemas.Codec[queue](queueCodec{})),
		codec:   records,
	}
}
