package graph

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/schemas"
)

// headerDelayed is on the records of delayed retry topics. It has what was known of the record
// where it was read first. User code does not see it.
const headerDelayed = "onceward.retry"

// errNotDelayed is the error for a record that another program wrote to a retry topic.
const errNotDelayed = schemas.Reason("the record of a delayed retry topic does not say where it comes from")

// DelayedHeader returns the header with which a record goes to a delayed retry topic. The header
// has the attempts, the first failure, and the offset, the timestamp and its type where the record
// was read.
func DelayedHeader(in *Input, attempts int, first time.Time) Header {
	return Header{Key: headerDelayed, Value: fmt.Appendf(nil, "%d %d %d %d %d",
		attempts, first.UnixMilli(), in.Offset, in.Timestamp, int8(in.TimestampType))}
}

// DelayedFrom returns the offset at which the record of a delayed retry topic was read first, in
// the source's partition of the same number. headers are those of the record. ok is false if they
// are not those of such a record.
func DelayedFrom(headers []Header) (offset int64, ok bool) {
	in := Input{Headers: headers}
	if RestoreDelayed(&in) != nil {
		return 0, false
	}
	return in.Offset, true
}

// delayedRanges bound the numbers in the header, in the order of DelayedHeader. Any producer of the
// topic can write a header. The attempts choose a topic, and a dead letter has to be readable with
// the attempts and the times.
var delayedRanges = [5]struct{ least, most int64 }{
	{1, 1 << 30},
	{-62167219200000, 253402300799999}, // the years from 0 to 9999
	{0, math.MaxInt64},
	{math.MinInt64, math.MaxInt64}, // a source checks the timestamps of its records
	{int64(CreateTime), int64(LogAppendTime)},
}

// RestoreDelayed turns a record of a delayed retry topic into the record that was delayed, as it
// was read first. Its attempts are added to those before. The error says that in is not such a
// record.
func RestoreDelayed(in *Input) error {
	last := len(in.Headers) - 1
	if last < 0 || in.Headers[last].Key != headerDelayed {
		return errNotDelayed
	}
	fields := strings.Fields(string(in.Headers[last].Value))
	var n [len(delayedRanges)]int64
	if len(fields) != len(n) {
		return errNotDelayed
	}
	for i, text := range fields {
		var err error
		if n[i], err = strconv.ParseInt(text, 10, 64); err != nil || n[i] < delayedRanges[i].least || n[i] > delayedRanges[i].most {
			return errNotDelayed
		}
	}
	in.Attempt += int(n[0])
	in.FirstFailure, in.Offset, in.Timestamp, in.TimestampType = time.UnixMilli(n[1]).UTC(), n[2], n[3], TimestampType(n[4])
	if in.Headers = in.Headers[:last:last]; last == 0 {
		in.Headers = nil
	}
	return nil
}
