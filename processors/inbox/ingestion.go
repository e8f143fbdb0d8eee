package inbox

import (
	"strconv"
	"strings"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

const (
	errCopied = schemas.Reason("the position of a record in a repartition topic is that of a copy, and no id; " +
		"read the id before the stream is repartitioned, or have it keep the origin")
	errNoPosition = schemas.Reason("the record was read from no topic, so there is no position that could be its id")
)

// IngestionID is an id function for sources without an id: topic, partition and offset of the
// record, with slashes between them. It is the id of a delivery: what the source sends twice is
// accepted twice, and only what the topic brings again is found. The position of a copy is refused
// (Config), because a copy that is made again has another one: behind topology.Repartition there is
// no ingestion id any more, unless that keeps the origin of its records (topology.KeepOrigin).
// [Globally] reads it in front of its detour.
//
// All that nodes make of one delivery has its id. What a node has kept back and released later has
// that of its own delivery, as behind a projection whose records wait (topology.TakeUp). But of
// several records that are made of one, as by topology.FlatMap, the second is taken for a copy of
// the first, so read the id before. And what is made of many, or of none, has no delivery: a closed
// window or the record of a punctuation is refused (Validation).
func IngestionID[K, V any](r topology.Record[K, V]) (string, error) {
	topic, partition, offset := r.Source()
	switch {
	case topic == "":
		return "", topology.Fail(topology.Validation, errNoPosition)
	case strings.HasSuffix(topic, "-repartition"):
		return "", topology.Fail(topology.Config, errCopied)
	}
	return topic + "/" + strconv.Itoa(int(partition)) + "/" + strconv.FormatInt(offset, 10), nil
}
