package conformance

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/topology"
)

// difference is a case of which the two sides make different things, on purpose.
type difference struct {
	// why says what differs, and why that is so.
	why     string
	records []caseRecord
	// leaps is that of a testCase.
	leaps       bool
	declare     func(b *topology.Builder)
	here, there caseOutputs
}

// wrote is a line of outputs, of the topic out.
func wrote(at int64, key string, value int64) string {
	return fmt.Sprintf("out %d %s %s", at, hexOf([]byte(key)), hexOf(binary.BigEndian.AppendUint64(nil, uint64(value))))
}

// deleted is a line of outputs, of the topic out, with a null value.
func deleted(at int64, key string) string { return fmt.Sprintf("out %d %s -", at, hexOf([]byte(key))) }

// closedWindow is the line of a window of a key that begins at 1000 and has counted n, and of the
// header id if it is not 0.
func closedWindow(key string, n int64, id byte) string {
	line := wrote(1001, string(binary.BigEndian.AppendUint64([]byte(key), 1000)), n)
	if id != 0 {
		line += headersText([]topology.Header{{Key: "id", Value: []byte{id}}})
	}
	return line
}

// windowFrom is the line of a window of a key that begins with its last record and has the value v.
func windowFrom(at int64, key string, v int64) string {
	return wrote(at, string(binary.BigEndian.AppendUint64([]byte(key), uint64(at))), v)
}

// slidingWindow is the line of a sliding window of a key that ends at 1000 and has counted n.
func slidingWindow(key string, n int64) string {
	return wrote(1000, string(binary.BigEndian.AppendUint64([]byte(key), 1000-windowSize)), n)
}

// closedWindowRecords are two records in one window, and one that closes it.
var closedWindowRecords = []caseRecord{
	keyValue("in", 1001, "a", 1).with("id", []byte{1}), keyValue("in", 1000, "a", 2).with("id", []byte{2}),
	keyValue("in", 2000, "b", 3).with("id", []byte{3}),
}

// streamsStops is what the program writes where the task has stopped.
const streamsStops = "error org.apache.kafka.streams.errors.StreamsException"

// differences are by the operators of the Java program.
var differences = map[string]difference{
	"punctuate-stream-time-as-it-is": {
		why: "there the first record of a task fires as well, although no time has passed, and punctuators get the stream time, which " +
			"depends on what record has moved it; here they get the multiple of the interval that was passed",
		records: []caseRecord{keyValue("in", 1000, "a", 1), keyValue("in", 1003, "b", 2), keyValue("in", 1010, "a", 4)},
		declare: processorOperators["punctuate-stream-time"].declare,
		here: caseOutputs{
			wrote(1000, "a", 1), wrote(1003, "b", 2), wrote(1001, "rows", 2), wrote(1001, "a", 1), wrote(1001, "b", 2),
			wrote(1010, "a", 4), wrote(1008, "rows", 2), wrote(1008, "a", 4), wrote(1008, "b", 2),
		},
		there: caseOutputs{
			wrote(1000, "a", 1), wrote(1000, "rows", 1), wrote(1000, "a", 1), wrote(1003, "b", 2), wrote(1003, "rows", 1), wrote(1003, "b", 2),
			wrote(1010, "a", 4), wrote(1010, "rows", 2), wrote(1010, "a", 4), wrote(1010, "b", 2),
		},
	},
	"punctuate-wall-clock": {
		why: "a leap of the wall clock fires once there, as after a stall; our driver fires whatever is due on the way, as where nothing " +
			"stalls, so that a test need not go step by step",
		records: []caseRecord{keyValue("in", 1000, "a", 2), clockMoves(3 * punctuateEvery)}, leaps: true,
		declare: processorOperators["punctuate-wall-clock"].declare,
		here: caseOutputs{
			wrote(1000, "a", 2), wrote(clockStart+punctuateEvery, "rows", 1), wrote(clockStart+punctuateEvery, "a", 2), wrote(clockStart+2*punctuateEvery, "rows", 1),
			wrote(clockStart+2*punctuateEvery, "a", 2), wrote(clockStart+3*punctuateEvery, "rows", 1), wrote(clockStart+3*punctuateEvery, "a", 2),
		},
		there: caseOutputs{wrote(1000, "a", 2), wrote(clockStart+3*punctuateEvery, "rows", 1), wrote(clockStart+3*punctuateEvery, "a", 2)},
	},
	"peek": {
		why:     "a timestamp that is invalid stops the application there; here it costs the record, which is a dead letter",
		records: []caseRecord{keyValue("in", 1000, "a", 1), keyValue("in", -1, "a", 2), keyValue("in", 1001, "a", 3)},
		declare: statelessOperators["peek"].declare,
		here:    caseOutputs{wrote(1000, "a", 1), wrote(1001, "a", 3)},
		there:   caseOutputs{streamsStops},
	},
	"partition-time-for-invalid": {
		why:     "so does one before there is any other time to give to the record",
		records: []caseRecord{keyValue("in", -1, "a", 1), keyValue("in", 1000, "a", 2)},
		declare: timeOperators["partition-time-for-invalid"].declare,
		here:    caseOutputs{wrote(1000, "a", 2)},
		there:   caseOutputs{streamsStops},
	},
	"partition-time-merge": {
		why: "the time that an invalid one gives way to is that of its partition there, and that of the task here: it is the one by which " +
			"windows close and punctuations fire",
		records: []caseRecord{keyValue("in", 1000, "a", 1), keyValue("other", 500, "b", 2), keyValue("other", -1, "b", 3)},
		declare: func(b *topology.Builder) {
			anyInput(b, streamTimeForInvalid).Merge("both", topology.From(b, anything("other"), streamTimeForInvalid)).Into(outTopic)
		},
		here:  caseOutputs{wrote(1000, "a", 1), wrote(500, "b", 2), wrote(1000, "b", 3)},
		there: caseOutputs{wrote(1000, "a", 1), wrote(500, "b", 2), wrote(500, "b", 3)},
	},
	"count-tumbling-suppressed": {
		why: "what a suppression lets go has the headers of the last record of its window there; ours has none, since it is made of all of " +
			"them",
		records: closedWindowRecords,
		declare: closingOperators["count-tumbling-suppressed"].declare,
		here:    caseOutputs{closedWindow("a", 2, 0)},
		there:   caseOutputs{closedWindow("a", 2, 2)},
	},
	"count-tumbling-on-close": {
		why: "what an aggregation emits on close has the headers of the record there that has closed the window, which may be of another " +
			"key and years later; ours has none",
		records: closedWindowRecords,
		declare: closingOperators["count-tumbling-on-close"].declare,
		here:    caseOutputs{closedWindow("a", 2, 0)},
		there:   caseOutputs{closedWindow("a", 2, 3)},
	},
	"count-sliding-suppressed": {
		why: "a suppression takes the end of a window for its first moment outside, so it emits a sliding window while the window still takes " +
			"records, and then again; here a window is emitted when it takes no more",
		records: []caseRecord{
			keyValue("in", 1000, "a", 1), keyValue("in", 1000+windowGrace, "b", 2), keyValue("in", 1000, "a", 3),
			keyValue("in", 1001+windowGrace, "b", 4),
		},
		declare: slidingOperators["count-sliding-on-close"].declare,
		here:    caseOutputs{slidingWindow("a", 2)},
		there:   caseOutputs{slidingWindow("a", 1), slidingWindow("a", 2)},
	},
	"cogroup-tumbling-late": {
		why: "each stream of a cogroup has a clock of its own there, so that a record is late or not by the records of its stream; here they " +
			"have one clock, which is in the store and closes the windows",
		records: []caseRecord{keyValue("in", 1000, "a", 1), keyValue("in", 2000, "b", 2), keyValue("other", 1000, "a", 3)},
		declare: func(b *topology.Builder) { cogroupTumbling(b, windowGrace*ms).Into(windowedOut) },
		here:    caseOutputs{windowFrom(1000, "a", 101), windowFrom(2000, "b", 102)},
		there:   caseOutputs{windowFrom(1000, "a", 101), windowFrom(2000, "b", 102), windowFrom(1000, "a", 199)},
	},
	"suppress-grouped": {
		why: "the old value of what a suppression lets go is the one before the last change there, which was never emitted, so that an " +
			"aggregation subtracts what was never added to it; here it is the one that was emitted last",
		records: []caseRecord{
			keyValue("in", 1000, "a", 1), keyValue("in", 1001, "a", 2), keyValue("in", 1020, "b", 9), keyValue("in", 1030, "a", 3),
			keyValue("in", 1031, "a", 4), keyValue("in", 1050, "b", 9),
		},
		declare: func(b *topology.Builder) {
			moved := topology.GroupTable(suppressInput(b, limit()), "moved", strCodec, longCodec,
				func(k string, v int64) (string, int64, error) { return k, v, nil })
			topology.ReduceTable(moved, stored("reduce"), addToGroup, takeFromGroup).Into(numbers("out"))
		},
		here:  caseOutputs{wrote(1001, "a", 2), wrote(1020, "b", 9), wrote(1031, "a", 4)},
		there: caseOutputs{wrote(1001, "a", 2), wrote(1020, "b", 9), wrote(1031, "a", 3)},
	},
	"stream-left-join": {
		why: "a null that is left out moves the time of an outer join there, so that a record which comes later is passed on at once; here it " +
			"moves no time, as with every other operator",
		records: []caseRecord{keyValue("in", 1000, "a", 1), deletion("other", 1016, "x"), keyValue("in", 1001, "b", 2)},
		declare: streamJoinOperators["stream-left-join"].declare,
		there:   caseOutputs{wrote(1001, "b", 21000)},
	},
	"stream-left-join-as-it-is": {
		why: "after a look at what has closed an outer join takes the last record that waits for the earliest one there, and does not look " +
			"before that one has closed; here each record is passed on when its own window has closed",
		records: []caseRecord{
			keyValue("in", 1000, "a", 1), keyValue("in", 1012, "b", 2), keyValue("in", 1016, "c", 3), keyValue("in", 1020, "d", 4),
			keyValue("in", 1030, "e", 5), keyValue("in", 1032, "f", 6),
		},
		declare: streamJoinOperators["stream-left-join"].declare,
		here:    caseOutputs{wrote(1000, "a", 11000), wrote(1012, "b", 21000), wrote(1016, "c", 31000)},
		there:   caseOutputs{wrote(1000, "a", 11000), wrote(1012, "b", 21000)},
	},
	"grace-left-join-of-all": {
		why: "a null key stops a left join with a grace there, because its buffer takes none; here the record has no row, whatever comes, and is " +
			"passed on at once, as without a grace",
		records: []caseRecord{keyless("in", 1000, 1), keyValue("in", 1010, "a", 2), keyValue("in", 1010+windowGrace, "b", 3)},
		declare: func(b *topology.Builder) {
			topology.LeftJoinStreamTableWithGrace(anyInput(b), otherVersions(b, tableHistory), "join", ofMillis(windowGrace), presentKey{}, presentValue{},
				sumOrThousand).Into(nullableKeys("out"))
		},
		here:  caseOutputs{strings.Replace(wrote(1000, "", 1001), " x ", " - ", 1), wrote(1010, "a", 1002)},
		there: caseOutputs{streamsStops},
	},
	"versioned-join": {
		why: "a delete with the timestamp of the only version of its key is not kept there, so that an older version that comes later is taken " +
			"for the newest; here the key stays deleted",
		records: []caseRecord{
			keyValue("in", 1000, "a", 5), keyValue("other", 1003, "a", 1), deletion("other", 1003, "a"), keyValue("other", 1001, "a", 2),
		},
		declare: versionedOperators["versioned-join"].declare,
		here:    caseOutputs{wrote(1003, "a", 6), deleted(1003, "a")},
		there:   caseOutputs{wrote(1003, "a", 6), deleted(1003, "a"), wrote(1001, "a", 7)},
	},
	"aggregate-grouped": {
		why: "the first change of a key has the initial aggregate for its old value there, and none here, so that there a second " +
			"aggregation subtracts what was never added to it",
		records: []caseRecord{keyValue("in", 1000, "a", 1), keyValue("in", 1001, "b", 2)},
		declare: func(b *topology.Builder) {
			sums := topology.Aggregate(topology.From(b, numbers("in")), stored("aggregate"), hundred, addValue)
			all := topology.GroupTable(sums, "moved", strCodec, longCodec, func(_ string, v int64) (string, int64, error) { return "all", v, nil })
			topology.ReduceTable(all, stored("reduce"), addToGroup, takeFromGroup).Into(numbers("out"))
		},
		here:  caseOutputs{wrote(1000, "all", 101), wrote(1001, "all", 203)},
		there: caseOutputs{wrote(1000, "all", 101), wrote(1001, "all", 103)},
	},
}

// TestOperatorsDifferOnPurpose pins what differs on purpose, on both sides: one that goes away,
// here or with another version there, is no difference any more.
func TestOperatorsDifferOnPurpose(t *testing.T) {
	t.Parallel()
	var cases []operatorCase
	for _, name := range slices.Sorted(maps.Keys(differences)) {
		d := differences[name]
		cases = append(cases, operatorCase{
			operator: name, name: "a difference", caseTraits: caseTraits{uncounted: true}, records: d.records, leaps: d.leaps,
		})
	}
	there := streamsRun(t, cases)
	for i, c := range cases {
		d := differences[c.operator]
		here := runHere(t, buildOperator(t, d.declare), c)
		if !slices.Equal(here, d.here) || !slices.Equal(there[i], d.there) {
			t.Errorf("%s: %s:\n%swritten here:\n%swanted:\n%sby Kafka Streams:\n%swanted:\n%s",
				c.operator, d.why, c.people(), here.people(), d.here.people(), there[i].people(), d.there.people())
		}
	}
}
