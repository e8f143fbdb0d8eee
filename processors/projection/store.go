package projection

import (
	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// storesOf returns the store as the projection itself opens it, and as everybody else does.
func storesOf[K, S any](
	name string, keys schemas.Codec[K], state schemas.Codec[S], definition uint16,
) (topology.StoreOf[K, stored[S]], topology.StoreOf[K, Row[S]]) {
	if state == nil {
		return topology.Store[K, stored[S]](name, keys, nil), topology.Store[K, Row[S]](name, keys, nil)
	}
	rows := rowCodec[S]{state: state, definition: definition}
	return topology.Store(name, keys, schemas.Codec[stored[S]](rows)),
		topology.Store(name, keys, schemas.Codec[Row[S]](ownRowCodec[S]{rows}))
}

// waitingStores are the stores of the records that wait.
type waitingStores[K, V any] struct {
	records topology.StoreOf[parkedKey[K], parked[V]]
	queues  topology.StoreOf[K, queue]
	codec   schemas.Codec[parked[V]]
}

func waitingStoresOf[K, V any](name string, keys schemas.Codec[K], values schemas.Codec[V]) waitingStores[K, V] {
	var at schemas.Codec[parkedKey[K]] = parkedKeyCodec[K]{keys}
	var records schemas.Codec[parked[V]] = parkedCodec[V]{value: values, null: identity.Null[V]()}
	return waitingStores[K, V]{
		records: topology.Store(name+"-parked", at, records),
		queues:  topology.Store(name+"-queues", keys, schemas.Codec[queue](queueCodec{})),
		codec:   records,
	}
}
