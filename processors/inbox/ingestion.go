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
// record, with slashes between them. It identifies a delivery. A record that the source sends twice
// is accepted twice; only a record that is read again from the topic is a duplicate. The position
// of a copy is refused (Config), because the copy has another position when it is written again. So
// behind topology.Repartition there is an ingestion id only if the topic keeps the origin of its
// records (topology.KeepOrigin). [Globally] reads the id before its repartition topic.
//
// All records made from one delivery have its id. A deferred record has the id of its own delivery
// when it is released, for example behind a projection whose records wait (topology.Resume). If
// several records are made from one, as by topology.FlatMap, the second one would be a duplicate of
// the first, so read the id before. A record made from many records or from none, of a closed
// window or a punctuation, has no delivery and is refused (Validation).
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
