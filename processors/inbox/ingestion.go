package inbox

import (
	"strconv"
	"strings"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

const errCopied = schemas.Reason("the position of a record in a repartition topic is that of a copy, and no id; " +
	"read the id before the stream is repartitioned")

// IngestionID is an id function for sources without an id: topic, partition and offset of the record, with slashes
// between them. It is the id of a delivery: what the source sends twice is accepted twice, and only what the topic
// brings again is found. The position of a copy is refused (Config), because a copy that is made again has another
// one: behind topology.Repartition there is no ingestion id any more. [Globally] reads it in front of its detour.
func IngestionID[K, V any](r topology.Record[K, V]) (string, error) {
	topic, partition, offset := r.Source()
	if strings.HasSuffix(topic, "-repartition") {
		return "", topology.Fail(topology.Config, errCopied)
	}
	return topic + "/" + strconv.Itoa(int(partition)) + "/" + strconv.FormatInt(offset, 10), nil
}
