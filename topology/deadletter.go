package topology

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/onceward/onceward/topology/graph"
)

// The limits that keep the headers of a dead letter small whatever happened.
const (
	exceptionBytesMax = 200
	stackBytesMax     = 4 << 10
	// deadLetterBytesMin is the least that a dead-letter topic has to take: the headers, and
	// something to see.
	deadLetterBytesMin = graph.DeadLetterHeaderBytesMax + 4<<10
)

const deadLetterTime = "2006-01-02T15:04:05.000Z07:00"

// deadLetter returns the dead letter of the record at work. Key, value, headers and timestamp are
// the record's own.
//
// One exception: the broker would also refuse a timestamp that the topology refuses, and abort the
// round. So the dead letter has the time of the failure; [graph.HeaderLastTimestamp] has the
// original.
func (g *Graph) deadLetter(f *Failure) graph.Output {
	in, now := &g.in, g.config.Now()
	out := graph.Output{
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
	message := cutText(f.Message(), graph.DeadLetterMessageBytesMax)

	add(graph.HeaderStreamsException, cutText(f.Type(), exceptionBytesMax))
	add(graph.HeaderStreamsMessage, message)
	if g.topology.stacks && f.Stack != "" {
		add(graph.HeaderStreamsStacktrace, cutBytes(f.Stack, stackBytesMax))
	}
	add(graph.HeaderStreamsTopic, in.Topic)
	add(graph.HeaderStreamsPartition, strconv.Itoa(int(in.Partition)))
	add(graph.HeaderStreamsOffset, strconv.FormatInt(in.Offset, 10))

	first := in.FirstFailure
	if first.IsZero() {
		first = now
	}
	life, again := g.life(first)
	add(graph.HeaderID, life.ID)
	add(graph.HeaderApplication, g.topology.application)
	add(graph.HeaderVersion, g.topology.fingerprint)
	add(graph.HeaderTask, g.id.String())
	add(graph.HeaderNode, f.Node)
	add(graph.HeaderClass, f.Class.String())
	add(graph.HeaderMessage, message)
	add(graph.HeaderAttempts, strconv.Itoa(f.Attempt))
	add(graph.HeaderFirstFailure, life.FirstFailure.UTC().Format(deadLetterTime))
	add(graph.HeaderLastFailure, now.UTC().Format(deadLetterTime))
	add(graph.HeaderTopic, life.Origin.Topic)
	add(graph.HeaderPartition, strconv.Itoa(int(life.Origin.Partition)))
	add(graph.HeaderOffset, strconv.FormatInt(life.Origin.Offset, 10))
	add(graph.HeaderTimestamp, strconv.FormatInt(life.Origin.Timestamp, 10))
	add(graph.HeaderTimestampType, life.Origin.TimestampType.String())
	if source, ok := g.sourceHeader(again); ok {
		headers = append(headers, source)
	}
	add(graph.HeaderLastTimestamp, strconv.FormatInt(in.Timestamp, 10))
	add(graph.HeaderDeaths, strconv.Itoa(min(life.Deaths+1, graph.DeadLetterDeathsMax)))
	if life.Cut != "" {
		add(graph.HeaderCut, life.Cut)
	}
	return headers
}

// life returns the history of the record at work up to this failure, and whether it has failed in
// this application before. first is the time of the first failure.
//
// Headers that do not parse come from another program: the record counts as one that fails for the
// first time. A record with headers of another application counts so too, or the dead letters of
// both would have one id. Its number of deaths counts on: without that, redrives of a topic that
// several applications read could loop.
func (g *Graph) life(first time.Time) (life graph.DeadLetterInfo, again bool) {
	in := &g.in
	origin := graph.DeadLetterOrigin{
		Topic: in.Topic, Partition: in.Partition, Offset: in.Offset, Timestamp: in.Timestamp, TimestampType: in.TimestampType,
	}
	before, err := graph.ParseDeadLetter(in.Headers)
	if err == nil && before.Application == g.topology.application {
		return before, true
	}
	return graph.DeadLetterInfo{
		ID: graph.DeadLetterID(g.topology.application, origin), Origin: origin, FirstFailure: first, Deaths: before.Deaths,
	}, false
}

// cutToFit shortens a dead letter that the topic would refuse: first the value, then the headers of
// the record, then the key, and last the essential headers. The first original headers of out are
// those of the record.
func (s *sink) cutToFit(out *graph.Output, original int) {
	if s.excess(out) <= 0 {
		return
	}
	key, value := out.Key, out.Value
	// A record that was cut when it died before keeps the sizes that it had at first.
	if out.Headers[len(out.Headers)-1].Key != graph.HeaderCut {
		sizes := "key=" + strconv.Itoa(len(out.Key)) + " value=" + strconv.Itoa(len(out.Value)) +
			" headers=" + strconv.Itoa(original)
		out.Headers = append(out.Headers, Header{Key: graph.HeaderCut, Value: []byte(sizes)})
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

// essential returns the headers without which consumers would misread the record: its mode, because
// a repetition without mode passes for the event, and its own key. The last of several headers with
// one name counts.
func essential(headers []Header) (out []Header) {
	for _, name := range []string{HeaderMode, graph.HeaderOwnKey} {
		if i := lastHeader(headers, name); i >= 0 {
			out = append(out, headers[i])
		}
	}
	return out
}

// excess returns by how many bytes out is too large for the topic.
func (s *sink) excess(out *graph.Output) int {
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
