package flights

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
)

// deadOrigin is what dead letters say of the pipeline that wrote them.
type deadOrigin struct {
	// Application is its id, Topic its source topic.
	Application, Topic string
}

// checkDead compares the dead letters, by partition: key, value, timestamp and own header as they
// were, and the headers that say where and why the record died. Dead letters are partitioned like
// the source topic.
func (e *expected) checkDead(got [][]*kgo.Record, origin deadOrigin) error {
	r := report{subject: "flights-dead"}
	ids := map[string]int64{}
	sequence(&r, e.Dead, got, func(p int32, want *input, got *kgo.Record) string {
		headers := map[string]string{}
		for _, h := range got.Headers {
			if _, twice := headers[h.Key]; twice {
				return "header " + h.Key + " is there twice"
			}
			headers[h.Key] = string(h.Value)
		}
		if difference := differsFromDead(headers, want, got, origin); difference != "" {
			return difference
		}
		id := headers["onceward.id"]
		if other, taken := ids[id]; taken || id == "" {
			return fmt.Sprintf("the dead letter of offset %d has the id %q, like that of offset %d",
				want.Offset, id, other)
		}
		ids[id] = want.Offset
		return ""
	})
	return r.err()
}

func differsFromDead(headers map[string]string, want *input, got *kgo.Record, origin deadOrigin) string {
	kind := want.Malformed.Kind
	at := fmt.Sprintf("dead letter of offset %d (%s)", want.Offset, kind)
	node, class := kind.fate()
	if node == "source" {
		node = origin.Topic + "-source"
	}
	for key, value := range map[string]string{
		lineHeader:                   strconv.Itoa(want.Row.Line),
		"onceward.application":       origin.Application,
		"onceward.task":              origin.Topic + "_" + strconv.Itoa(int(want.Partition)),
		"onceward.node":              node,
		"onceward.class":             class,
		"onceward.attempts":          "1",
		"onceward.deaths":            "1",
		"onceward.topic":             origin.Topic,
		"onceward.partition":         strconv.Itoa(int(want.Partition)),
		"onceward.offset":            strconv.FormatInt(want.Offset, 10),
		"onceward.timestamp":         strconv.FormatInt(want.Timestamp, 10),
		"onceward.timestamp.type":    "CreateTime",
		"onceward.timestamp.last":    strconv.FormatInt(want.Timestamp, 10),
		"__streams.errors.topic":     origin.Topic,
		"__streams.errors.partition": strconv.Itoa(int(want.Partition)),
		"__streams.errors.offset":    strconv.FormatInt(want.Offset, 10),
	} {
		if headers[key] != value {
			return fmt.Sprintf("%s: header %s is %q, not %q", at, key, headers[key], value)
		}
	}
	switch {
	case (got.Key == nil) != (want.Key == nil) || !bytes.Equal(got.Key, want.Key):
		return fmt.Sprintf("%s: the key is %q, not %q", at, got.Key, want.Key)
	case !bytes.Equal(got.Value, want.Value):
		return fmt.Sprintf("%s: the value is %q, not %q", at, got.Value, want.Value)
	case got.Timestamp.UnixMilli() != want.Timestamp:
		return fmt.Sprintf("%s: the timestamp is %d, not %d", at, got.Timestamp.UnixMilli(), want.Timestamp)
	}
	return ""
}
