package topology

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The headers of a dead letter. Values are UTF-8 text. Those of the first group are the ones of Kafka
// Streams, with its meaning: the record that failed now. Those of the second group are ours.
const (
	HeaderStreamsException  = "__streams.errors.exception"
	HeaderStreamsMessage    = "__streams.errors.message"
	HeaderStreamsStacktrace = "__streams.errors.stacktrace"
	HeaderStreamsTopic      = "__streams.errors.topic"
	HeaderStreamsPartition  = "__streams.errors.partition"
	HeaderStreamsOffset     = "__streams.errors.offset"

	// HeaderID identifies the record that died: see [DeadLetterID].
	HeaderID = "onceward.id"
	// HeaderApplication is the one in which the record died. A record that dies in one application after another is
	// another one in each of them, with an id and an origin of its own; only the number of deaths goes on.
	HeaderApplication = "onceward.application"
	// HeaderVersion is the fingerprint of the topology.
	HeaderVersion = "onceward.version"
	HeaderTask    = "onceward.task"
	HeaderNode    = "onceward.node"
	HeaderClass   = "onceward.class"
	// HeaderMessage is the reason, which quotes nothing of the record: see [Failure.Reason].
	HeaderMessage  = "onceward.message"
	HeaderAttempts = "onceward.attempts"
	// HeaderFirstFailure and HeaderLastFailure are in RFC 3339 with milliseconds, UTC.
	HeaderFirstFailure = "onceward.failure.first"
	HeaderLastFailure  = "onceward.failure.last"
	// HeaderTopic and the four after it are where the record died first.
	HeaderTopic     = "onceward.topic"
	HeaderPartition = "onceward.partition"
	HeaderOffset    = "onceward.offset"
	// HeaderTimestamp is in milliseconds since the epoch.
	HeaderTimestamp     = "onceward.timestamp"
	HeaderTimestampType = "onceward.timestamp.type"
	// HeaderSource is on records of a repartition topic with [KeepOrigin], and so on their dead letters, whether they died there or,
	// redriven, elsewhere: where the record was read that they come from, as topic, partition, offset and, if it is known, when the broker
	// appended it, in milliseconds since the epoch, with spaces between them. It is empty if they come from none.
	HeaderSource = "onceward.source"
	// HeaderLastTimestamp is the timestamp that the record had when it died last, in milliseconds since the epoch. The dead
	// letter's own can be another one: a topic with message.timestamp.type=LogAppendTime gives it the broker's time, and a
	// broker does not take every time. Letters of older builds do not have it.
	HeaderLastTimestamp = "onceward.timestamp.last"
	// HeaderDeaths counts how often the record died, in whatever application: 1, and more after it was redriven.
	HeaderDeaths = "onceward.deaths"
	// HeaderEdition counts how often an operator has edited the dead letter since the record died; it is not there
	// if nobody has.
	HeaderEdition = "onceward.edition"
	// HeaderCut is there if the record had to be cut to fit into the dead-letter topic. It gives the full
	// sizes, such as "key=36 value=1200000 headers=2"; an edition has those of what is not put right yet.
	HeaderCut = "onceward.cut"
)

// The headers of what operators write to a dead-letter topic (package txn/admin). A record that dies never brings them along:
// with them its letter could pass for something that an operator has done.
const (
	// HeaderRedriven, with the time and the place in the two after it, makes a record without key and value the mark of a
	// letter that was redriven.
	HeaderRedriven   = "onceward.redriven"
	HeaderRedrivenAt = "onceward.redriven.at"
	HeaderRedrivenTo = "onceward.redriven.to"
	// HeaderSession is on marks and editions: a random text for each redrive and each edit, which tells them apart.
	HeaderSession = "onceward.session"
)

// The limits that keep the headers of a dead letter small whatever has happened.
const (
	// DeadLetterHeaderBytesMax bounds the keys and values of the headers that a dead letter has beside the
	// record's own.
	DeadLetterHeaderBytesMax = 8 << 10

	messageBytesMax   = 512
	cutBytesMax       = 80
	exceptionBytesMax = 200
	stackBytesMax     = 4 << 10
	// deadLetterBytesMin is the least that a dead-letter topic has to take: the headers, and something to
	// see.
	deadLetterBytesMin = DeadLetterHeaderBytesMax + 4<<10
)

const deadLetterTime = "2006-01-02T15:04:05.000Z07:00"

// DeadLetterID returns the id of a record that dies for the first time: 32 hexadecimal digits that follow from the
// application, and from the record's position and timestamp. The timestamp tells it from the record that was there before the
// topic was deleted and created again.
//
// A record that dies again in the same application keeps its id. So the id, the number of deaths and the position of the
// last one identify a dead letter, and a dead letter that is written twice has the same ones. The position counts because
// anybody can write these headers, and copy them from one record to others.
func DeadLetterID(application string, at DeadLetterOrigin) string {
	var b []byte
	for _, s := range []string{application, at.Topic} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	for _, n := range []int64{int64(at.Partition), at.Offset, at.Timestamp} {
		b = binary.AppendVarint(b, n)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// deadLetter returns the dead letter of the record at work. Key, value, headers and timestamp are the
// record's own.
//
// One exception: a timestamp that the topology refuses would be refused by the broker as well, and would
// take the round with it, so the time of the failure stands in; [HeaderLastTimestamp] has the original.
func (g *Graph) deadLetter(f *Failure) Output {
	in, now := &g.in, g.config.Now()
	out := Output{
		Topic:     g.deadLetters.topic,
		Partition: g.deadLetters.partition(in.Key, in.Partition),
		Timestamp: in.Timestamp,
		Key:       in.Key,
		Value:     in.Value,
	}
	if g.checkTimestamp(in.Timestamp) != nil {
		out.Timestamp = now.UnixMilli()
	}
	original := withMode(withoutDeadLetterHeaders(in.Headers), g.mode)
	out.Headers = append(make([]Header, 0, len(original)+24), original...)
	out.Headers = g.appendDeadLetterHeaders(out.Headers, f, now)
	g.deadLetters.cutToFit(&out, len(original))
	return out
}

func (g *Graph) appendDeadLetterHeaders(headers []Header, f *Failure, now time.Time) []Header {
	in := &g.in
	add := func(key, value string) { headers = append(headers, Header{Key: key, Value: []byte(value)}) }
	message := cutText(f.Reason(), messageBytesMax)

	add(HeaderStreamsException, cutText(typeOf(f.Err), exceptionBytesMax))
	add(HeaderStreamsMessage, message)
	if g.topology.stacks && f.Stack != "" {
		add(HeaderStreamsStacktrace, cutBytes(f.Stack, stackBytesMax))
	}
	add(HeaderStreamsTopic, in.Topic)
	add(HeaderStreamsPartition, strconv.Itoa(int(in.Partition)))
	add(HeaderStreamsOffset, strconv.FormatInt(in.Offset, 10))

	first := in.FirstFailure
	if first.IsZero() {
		first = now
	}
	life, again := g.life(first)
	add(HeaderID, life.ID)
	add(HeaderApplication, g.topology.application)
	add(HeaderVersion, g.topology.fingerprint)
	add(HeaderTask, g.id.String())
	add(HeaderNode, f.Node)
	add(HeaderClass, f.Class.String())
	add(HeaderMessage, message)
	add(HeaderAttempts, strconv.Itoa(f.Attempt))
	add(HeaderFirstFailure, life.FirstFailure.UTC().Format(deadLetterTime))
	add(HeaderLastFailure, now.UTC().Format(deadLetterTime))
	add(HeaderTopic, life.Origin.Topic)
	add(HeaderPartition, strconv.Itoa(int(life.Origin.Partition)))
	add(HeaderOffset, strconv.FormatInt(life.Origin.Offset, 10))
	add(HeaderTimestamp, strconv.FormatInt(life.Origin.Timestamp, 10))
	add(HeaderTimestampType, life.Origin.TimestampType.String())
	if source, ok := g.sourceHeader(again); ok {
		headers = append(headers, source)
	}
	add(HeaderLastTimestamp, strconv.FormatInt(in.Timestamp, 10))
	add(HeaderDeaths, strconv.Itoa(min(life.Deaths+1, deathsMax)))
	if life.Cut != "" {
		add(HeaderCut, life.Cut)
	}
	return headers
}

// life returns what is known of the record at work up to this death, of which first is the first failure, and whether it has died here
// before.
//
// Headers that do not parse were not written by us: the record counts as one that dies for the first time. In another
// application it does so too, or the letters of both would have one id; its deaths count, or a redrive of topics that several
// applications read would have no guard against loops.
func (g *Graph) life(first time.Time) (life DeadLetterInfo, again bool) {
	in := &g.in
	origin := DeadLetterOrigin{
		Topic: in.Topic, Partition: in.Partition, Offset: in.Offset, Timestamp: in.Timestamp, TimestampType: in.TimestampType,
	}
	before, err := ParseDeadLetter(in.Headers)
	if err == nil && before.Application == g.topology.application {
		return before, true
	}
	return DeadLetterInfo{
		ID: DeadLetterID(g.topology.application, origin), Origin: origin, FirstFailure: first, Deaths: before.Deaths,
	}, false
}

// cutToFit shortens a dead letter that the topic would refuse: the value first, then the record's own
// headers, then the key, and at the very last the headers that are essential. The first original headers of out are the
// record's own.
func (s *sink) cutToFit(out *Output, original int) {
	if s.excess(out) <= 0 {
		return
	}
	key, value := out.Key, out.Value
	// A record that was cut when it died before keeps the sizes that it had at first.
	if out.Headers[len(out.Headers)-1].Key != HeaderCut {
		sizes := "key=" + strconv.Itoa(len(out.Key)) + " value=" + strconv.Itoa(len(out.Value)) +
			" headers=" + strconv.Itoa(original)
		out.Headers = append(out.Headers, Header{Key: HeaderCut, Value: []byte(sizes)})
	}
	out.Value = shorten(value, s.excess(out))
	own, dead := out.Headers[:original], out.Headers[original:]
	for _, kept := range [][]Header{essential(own), nil} {
		if s.excess(out) <= 0 {
			return
		}
		out.Headers, out.Key, out.Value = append(kept, dead...), key, value
		out.Value = shorten(value, s.excess(out))
		out.Key = shorten(key, s.excess(out))
	}
}

// essential returns the headers without which a record is not what it was to those who read it again: its mode, or a
// repetition would pass for the event, and its own key. Where one is there several times, the last one counts.
func essential(headers []Header) (out []Header) {
	for _, name := range []string{HeaderMode, HeaderOwnKey} {
		if i := lastHeader(headers, name); i >= 0 {
			out = append(out, headers[i])
		}
	}
	return out
}

// excess returns by how many bytes out is too large for the topic.
func (s *sink) excess(out *Output) int {
	if s.maxMessageBytes <= 0 {
		return 0
	}
	return batchBytes(out) - s.maxMessageBytes
}

// shorten cuts n bytes off the end of b, which stays null if it is. A negative n cuts none.
func shorten(b []byte, n int) []byte {
	keep := min(max(len(b)-n, 0), len(b))
	return b[:keep:keep]
}

// cutText returns s as one line of valid UTF-8 of at most n bytes.
func cutText(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	return cutBytes(s, n)
}

// cutBytes returns at most the first n bytes of s, without cutting a character in two.
func cutBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
