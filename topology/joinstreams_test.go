package topology_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// joinWords joins two streams of texts in one of three ways.
type joinWords func(b *topology.Builder, left, right words, w topology.JoinWindows) words

func innerWords(_ *topology.Builder, left, right words, w topology.JoinWindows) words {
	return topology.JoinStreams(left, right, "join", w, schemas.String(), schemas.String(), schemas.String(), plus)
}

func leftWords(_ *topology.Builder, left, right words, w topology.JoinWindows) words {
	return topology.LeftJoinStreams(left, right, "join", w, schemas.String(), schemas.String(), schemas.String(), leftPlus)
}

func outerWords(_ *topology.Builder, left, right words, w topology.JoinWindows) words {
	return topology.OuterJoinStreams(left, right, "join", w, schemas.String(), schemas.String(), schemas.String(), outerPlus)
}

// joinedWords opens the task of a join of the left topic with the right one.
func joinedWords(tb testing.TB, join joinWords, w topology.JoinWindows) *task {
	tb.Helper()
	return tableTask(tb, func(b *topology.Builder) {
		join(b, topology.From(b, leftTopic), topology.From(b, rightTopic), w).Into(resultTopic)
	})
}

// TestJoinStreams: the limits on both sides, several records of one moment, their order, and the
// time of a result.
func TestJoinStreams(t *testing.T) {
	k := joinedWords(t, innerWords, topology.Within(10*ms).After(5*ms).Grace(3*ms))
	wantLines(t, k.script("right 100 a p", "left 110 a x", "left 111 a y", "left 95 a z", "left 94 a w", "right 100 a q",
		"left 110 a v", "right 110 b r", "right 100 a q"),
		"", "a=x+p@110", "", "a=z+p@100", "", "a=z+q@100 a=x+q@110",
		"a=v+p@110 a=v+q@110", "", "a=z+q@100 a=x+q@110 a=v+q@110")
}

// TestLeftJoinStreams: a record of the left stream waits until its window and the grace are over,
// and one that has met another one is not passed on alone. One that comes after its window is
// passed on at once.
func TestLeftJoinStreams(t *testing.T) {
	k := joinedWords(t, leftWords, topology.Within(10*ms).After(5*ms).Grace(3*ms))
	wantLines(t, k.script("left 100 a x", "right 108 b p", "right 109 b q", "left 110 b y", "left 104 c late", "left 105 c z",
		"right 95 c r", "left 500 d n", "right 501 e s"),
		"", "", "a=x+?@100", "b=y+p@110 b=y+q@110", "c=late+?@104", "", "c=late+r@104 c=z+r@105", "", "")
}

// TestOuterJoinStreams: each side has its own limit, and what has waited is passed on in the order
// of time.
func TestOuterJoinStreams(t *testing.T) {
	k := joinedWords(t, outerWords, topology.Within(10*ms).After(5*ms).Grace(3*ms))
	wantLines(t, k.script("left 100 a x", "right 100 b y", "right 99 c z", "left 109 d n", "left 113 d m", "left 114 e k",
		"right 1000 f o"),
		"", "", "", "a=x+?@100", "c=?+z@99", "b=?+y@100", "d=n+?@109 d=m+?@113 e=k+?@114")

	k = joinedWords(t, outerWords, topology.Within(5*ms))
	wantLines(t, k.script("left 10 b y", "left 10 a x", "left 10 a v", "right 10 c z", "right 9 d w", "left 11 e u", "left 100 f t"),
		"", "", "", "", "", "", "d=?+w@9 c=?+z@10 a=x+?@10 a=v+?@10 b=y+?@10 e=u+?@11")
}

// TestJoinStreamWithItself: a record meets itself, and each other one from both sides.
func TestJoinStreamWithItself(t *testing.T) {
	for name, test := range map[string]struct {
		join joinWords
		want []string
	}{
		"inner": {innerWords, []string{"a=x+x@10", "a=y+x@12 a=x+y@12 a=y+y@12", "b=z+z@100"}},
		"left":  {leftWords, []string{"a=x+x@10", "a=y+x@12 a=x+y@12 a=y+y@12", "b=z+z@100"}},
		"outer": {outerWords, []string{"a=x+x@10", "a=y+x@12 a=x+y@12 a=y+y@12", "b=z+z@100"}},
	} {
		t.Run(name, func(t *testing.T) {
			k := tableTask(t, func(b *topology.Builder) {
				s := topology.From(b, leftTopic)
				test.join(b, s, s, topology.Within(5*ms)).Into(resultTopic)
			})
			wantLines(t, k.script("left 10 a x", "left 12 a y", "left 100 b z"), test.want...)
		})
	}
}

// TestJoinShiftedWindows: a limit may be negative. Then no record meets one of its own time, and
// the stores keep records for as long as they can meet others.
func TestJoinShiftedWindows(t *testing.T) {
	k := joinedWords(t, innerWords, topology.Within(0).Before(-5*ms).After(10*ms))
	wantLines(t, k.script("left 100 a x", "right 100 a p", "right 104 a q", "right 105 a r", "left 110 b y", "right 110 a s",
		"right 111 a t"),
		"", "", "", "a=x+r@105", "", "a=x+s@110", "")

	k = joinedWords(t, leftWords, topology.Within(0).Before(10*ms).After(-5*ms))
	wantLines(t, k.script("right 100 a p", "left 104 a x", "left 105 a y", "left 110 a z", "left 111 a w"),
		"", "a=x+?@104", "a=y+p@105", "a=z+p@110", "a=w+?@111")
}

// TestJoinTheSameMoment: without any width records of one millisecond meet, in every order.
func TestJoinTheSameMoment(t *testing.T) {
	k := joinedWords(t, outerWords, topology.Within(0))
	wantLines(t, k.script("left 10 a x", "right 10 a y", "left 10 a z", "left 10 b v", "right 9 a w", "right 11 a u"),
		"", "a=x+y@10", "a=z+y@10", "", "a=?+w@9", "b=v+?@10")
}

// TestJoinRetention: a record is in its store for both limits and the grace. One that is older is
// counted as late, meets others and is met by none.
func TestJoinRetention(t *testing.T) {
	k := joinedWords(t, leftWords, topology.Within(10*ms).Grace(5*ms)) // retention 25
	wantLines(t, k.script("right 100 a p", "left 125 b x", "left 101 a y", "right 91 a q"), "", "", "a=y+p@101", "a=y+q@101")
	if v := k.send("left", 100, "a", "z"); countsOf(v) != "join.late=1" || lines(v.Outputs) != `result "a"="z+q"; result "a"="z+p"` {
		t.Errorf("a late record is counted as %q, and makes %s", countsOf(v), lines(v.Outputs))
	}
	if v := k.send("left", 99, "c", "z"); countsOf(v) != "join.late=1" || lines(v.Outputs) != `result "c"="z+?"` {
		t.Errorf("a late record that meets none is counted as %q, and makes %s", countsOf(v), lines(v.Outputs))
	}
	wantLines(t, k.script("right 95 a r", "right 125 d s", "left 101 a v"), "a=y+r@101", "", "a=v+?@101")
}

// TestJoinStreamsNulls: a null value ends in every join. A null key meets none: an outer join
// passes it on at once. A record that is left out moves no time.
func TestJoinStreamsNulls(t *testing.T) {
	nullable := func(name string) topology.TopicOf[textOpt, textOpt] {
		return topology.Topic(name, topology.Nullable(schemas.String()), topology.Nullable(schemas.String()))
	}
	type texts = topology.Stream[textOpt, textOpt]
	of := func(v textOpt) string { return v.Or("null") }
	side := func(v topology.Option[textOpt]) string { return of(v.Or(topology.Some("?"))) }
	w := topology.Within(5 * ms)
	for name, test := range map[string]struct {
		join   func(left, right texts) topology.Stream[textOpt, string]
		want   []string
		counts string
	}{
		"inner": {func(left, right texts) topology.Stream[textOpt, string] {
			return topology.JoinStreams(left, right, "join", w, optionText{}, optionText{}, optionText{},
				func(_, l, r textOpt) (string, error) { return of(l) + "+" + of(r), nil })
		}, []string{"", "", "", "", "a=x+y@11", ""}, "join.null-key=1, join.null-key=1, join.null-value=1, join.null-value=1, join.null-key=1"},
		"left": {func(left, right texts) topology.Stream[textOpt, string] {
			return topology.LeftJoinStreams(left, right, "join", w, optionText{}, optionText{}, optionText{},
				func(_, l textOpt, r topology.Option[textOpt]) (string, error) { return of(l) + "+" + side(r), nil })
		}, []string{"", "=z+?@90", "", "", "a=x+y@11", ""}, ", join.null-key=1, join.null-value=1, join.null-value=1, join.null-value=1"},
		"outer": {func(left, right texts) topology.Stream[textOpt, string] {
			return topology.OuterJoinStreams(left, right, "join", w, optionText{}, optionText{}, optionText{},
				func(_ textOpt, l, r topology.Option[textOpt]) (string, error) { return side(l) + "+" + side(r), nil })
		}, []string{"", "=z+?@90", "=?+w@91", "", "a=x+y@11", ""}, ", , join.null-value=1, join.null-value=1, join.null-value=1"},
	} {
		t.Run(name, func(t *testing.T) {
			k := tableTask(t, func(b *topology.Builder) {
				test.join(topology.From(b, nullable("left")), topology.From(b, nullable("right"))).
					Into(topology.Topic("result", topology.Nullable(schemas.String()), schemas.String()))
			})
			wantLines(t, k.script("left 10 a x", "left 90 - z", "right 91 - w", "left 92 a -", "right 11 a y", "right 93 a -"), test.want...)
			got := countsOf(k.send("left", 20, "-", "x"))
			for _, r := range [][3]string{{"right", "-", "x"}, {"left", "a", "-"}, {"right", "a", "-"}, {"left", "-", "-"}} {
				got += ", " + countsOf(k.send(r[0], 20, r[1], r[2]))
			}
			if got != test.counts {
				t.Errorf("counted are %q, want %q", got, test.counts)
			}
		})
	}
}

// TestJoinedHeaders: a result has the headers and the mode of the record that came last. One that
// has waited has its own mode and no headers.
func TestJoinedHeaders(t *testing.T) {
	k := joinedWords(t, outerWords, topology.Within(5*ms))
	send := func(topic string, ms int64, mode string) graph.Verdict {
		in := k.input(topic, []byte("a"), []byte("x"))
		in.Timestamp, in.Headers = ms, []topology.Header{{Key: "trace", Value: []byte(topic)}}
		if mode != "" {
			in.Headers = append(in.Headers, topology.Header{Key: topology.HeaderMode, Value: []byte(mode)})
		}
		return want(t, k.graph.Process(in), graph.Accept)
	}
	send("left", 10, "REPLAY")
	if v := send("right", 11, ""); len(v.Outputs) != 1 || string(v.Outputs[0].Headers[0].Value) != "right" || modeOf(v.Outputs[0].Headers) != "" {
		t.Errorf("the outputs are %v", v.Outputs)
	}
	send("left", 100, "REPAIR")
	send("right", 200, "")
	v := send("left", 300, "REPLAY")
	if len(v.Outputs) != 1 || len(v.Outputs[0].Headers) != 0 {
		t.Errorf("one that has waited, and is live, is %v", v.Outputs)
	}
	k = joinedWords(t, leftWords, topology.Within(5*ms))
	send("left", 100, "REPAIR")
	if v = send("left", 200, ""); len(v.Outputs) != 1 || modeOf(v.Outputs[0].Headers) != "[REPAIR]" || len(v.Outputs[0].Headers) != 1 {
		t.Errorf("one that has waited, and is a repair, is %v", v.Outputs)
	}
}

// TestJoinStreamsFailure: a record that fails leaves no trace: it is in no store, nothing has
// closed, and what it has met still waits. A record that cannot be read, of either stream, costs
// itself alone.
func TestJoinStreamsFailure(t *testing.T) {
	k := tableTask(t, func(b *topology.Builder) {
		right := topology.From(b, topology.Topic("right", schemas.String(), schemas.Int64()))
		topology.OuterJoinStreams(topology.From(b, leftTopic), right, "join", topology.Within(5*ms), schemas.String(), schemas.String(),
			schemas.Int64(), func(_ string, l textOpt, r topology.Option[int64]) (string, error) {
				if l.Or("") == "bad" {
					return "", topology.Fail(topology.Validation, schemas.Reason("asked to"))
				}
				return l.Or("?") + "+" + show(r), nil
			}).Into(resultTopic)
	})
	number := string([]byte{0, 0, 0, 0, 0, 0, 0, 7})
	want(t, k.send("right", 10, "a", number), graph.Accept)
	want(t, k.send("left", 10, "b", "x"), graph.Accept)
	for _, failing := range []struct{ topic, key, value, node string }{
		{"left", "a", "bad", "join"}, {"right", "a", "short", "right-source"}, {"left", "a", "\xff", "left-source"},
	} {
		if v := want(t, k.send(failing.topic, 12, failing.key, failing.value), topology.DeadLetter); v.Failure.Node != failing.node {
			t.Errorf("the node of the failure is %q, want %q", v.Failure.Node, failing.node)
		}
	}
	if v := want(t, k.send("left", 11, "a", "y"), graph.Accept); lines(v.Outputs) != `result "a"="y+7"` {
		t.Errorf("the outputs are %s", lines(v.Outputs))
	}
	wantLines(t, k.script("left 100 c z"), "b=x+-@10")
}

// TestJoinStreamsFailureBehind: a node behind the join fails the record that has closed what
// waited, and it closes again.
func TestJoinStreamsFailureBehind(t *testing.T) {
	fail := true
	k := tableTask(t, func(b *topology.Builder) {
		topology.MapValues(leftWords(b, topology.From(b, leftTopic), topology.From(b, rightTopic), topology.Within(5*ms)), "fails",
			func(v string) (string, error) {
				if fail {
					return "", errors.New("bad")
				}
				return v, nil
			}).Into(resultTopic)
	})
	wantLines(t, k.script("left 10 a x"), "")
	want(t, k.send("right", 20, "b", "y"), topology.DeadLetter)
	fail = false
	wantLines(t, k.script("right 21 b z"), "a=x+?@10")
}

// TestFailureNamesTheRecordThatWaited: what fails for a record that has waited, in the join or
// behind it, is named by side and time in the failure, and in the dead letter of the record at
// work. The failure of the record at work names none.
func TestFailureNamesTheRecordThatWaited(t *testing.T) {
	for name, c := range map[string]struct{ left, right, behind, said string }{
		"function, left side":  {left: "bad", said: "asked to, for the record with timestamp 1970-01-01T00:00:00.010Z that has waited on the left side of node join"},
		"function, right side": {right: "bad", said: "asked to, for the record with timestamp 1970-01-01T00:00:00.010Z that has waited on the right side of node join"},
		"panic": {
			left: "panic", said: ", for the record with timestamp 1970-01-01T00:00:00.010Z that has waited on the left side of node join",
		},
		"behind": {
			left: "x", behind: "x+?",
			said: "asked to behind, for the record with timestamp 1970-01-01T00:00:00.010Z that has waited on the left side of node join",
		},
		"the record at work": {left: "x", behind: "now+now", said: "asked to behind"},
	} {
		t.Run(name, func(t *testing.T) {
			k := tableTask(t, func(b *topology.Builder) {
				joined := topology.OuterJoinStreams(topology.From(b, leftTopic), topology.From(b, rightTopic), "join", topology.Within(5*ms),
					schemas.String(), schemas.String(), schemas.String(), func(_ string, l, r textOpt) (string, error) {
						for _, v := range []string{l.Or(""), r.Or("")} {
							switch v {
							case "bad":
								return "", topology.Fail(topology.Validation, schemas.Reason("asked to"))
							case "panic":
								panic("asked to")
							}
						}
						return l.Or("?") + "+" + r.Or("?"), nil
					})
				topology.MapValues(joined, "behind", func(v string) (string, error) {
					if v == c.behind {
						return "", topology.Fail(topology.Validation, schemas.Reason("asked to behind"))
					}
					return v, nil
				}).Into(resultTopic)
			})
			if c.left != "" {
				want(t, k.send("left", 10, "a", c.left), graph.Accept)
			}
			if c.right != "" {
				want(t, k.send("right", 10, "a", c.right), graph.Accept)
			}
			v := k.send("left", 20, "b", "now")
			if name == "the record at work" {
				want(t, v, graph.Accept)
				v = k.send("right", 20, "b", "now")
			}
			want(t, v, topology.DeadLetter)
			told := ""
			for _, h := range v.Outputs[0].Headers {
				if h.Key == graph.HeaderMessage {
					told = string(h.Value)
				}
			}
			if !strings.Contains(v.Failure.Error(), c.said) || !strings.HasSuffix(told, c.said) || strings.Contains(told, "waited") != strings.Contains(c.said, "waited") {
				t.Errorf("the failure says %q and the dead letter %q, want %q", v.Failure, told, c.said)
			}
			// The next record does not inherit the name.
			if v := k.send("left", 20, "b", "\xff"); v.Failure == nil || strings.Contains(v.Failure.Error(), "waited") {
				t.Errorf("the failure of a record that cannot be read is %v", v.Failure)
			}
		})
	}
}

// TestJoinStreamsMistakes: what is wrong with a join.
func TestJoinStreamsMistakes(t *testing.T) {
	b, other := topology.NewBuilder("app"), topology.NewBuilder("other")
	left, right := topology.From(b, leftTopic), topology.From(b, rightTopic)
	text, none := schemas.String(), schemas.Codec[string](nil)
	w := topology.Within(time.Second)
	join := func(name string, l, r words, w topology.JoinWindows) {
		topology.JoinStreams(l, r, name, w, text, text, text, plus)
	}
	join("foreign", left, topology.From(other, rightTopic), w)
	topology.JoinStreams[string, string, string, string](left, right, "nil", w, text, text, text, nil)
	topology.LeftJoinStreams[string, string, string, string](left, right, "nil-left", w, text, text, text, nil)
	topology.OuterJoinStreams[string, string, string, string](left, right, "nil-outer", w, text, text, text, nil)
	topology.JoinStreams(left, right, "codec", w, text, none, text, plus)
	join("micro", left, right, topology.Within(time.Microsecond))
	join("long", left, right, topology.Within(101*365*24*time.Hour))
	join("ends", left, right, w.Before(-2*time.Second))
	join("grace", left, right, w.Grace(-1))
	rekeyed := topology.SelectKey(right, "by-value", func(r word) (string, error) { return r.Value, nil })
	join("rekeyed", rekeyed, rekeyed, w)
	join("copartitioned", left, rekeyed.Copartitioned(), w)
	join("copartitioned", left, right, w)
	_, err := b.Build()
	wantMistakes(t, err,
		"foreign: a stream cannot be joined: it belongs to another Builder",
		"nil: the function is nil",
		"nil-left: the function is nil",
		"nil-outer: the function is nil",
		"codec: store codec-left: the value codec is nil",
		"micro: the limits of a join are whole milliseconds, at most 100 years, not 1µs before and 1µs after",
		"long: the limits of a join are whole milliseconds",
		"ends: a join from -2s before to 1s after ends before it begins",
		"grace: the grace of a join is whole milliseconds, from 0 to 100 years, not -1ns",
		"rekeyed: the key may have been changed by node by-value",
		"rekeyed: the key may have been changed by node by-value",
		"copartitioned: the name is taken")
}

// TestJoinStreamsPartitions: streams with different numbers of partitions are refused.
func TestJoinStreamsPartitions(t *testing.T) {
	b := topology.NewBuilder("app")
	innerWords(b, topology.From(b, leftTopic), topology.From(b, rightTopic), topology.Within(time.Second)).Into(resultTopic)
	built := mustBuild(t, b)
	if err := built.CheckPartitions(map[string]int32{"left": 4, "right": 4, "result": 1}); err != nil {
		t.Error(err)
	}
	err := built.CheckPartitions(map[string]int32{"left": 4, "right": 5, "result": 1})
	const wanted = "topology app: subtopology left reads topics with different numbers of partitions: left has 4, right has 5; make " +
		"them equal, or send one of the streams through Repartition"
	if err == nil || err.Error() != wanted {
		t.Errorf("the error is %v, want %s", err, wanted)
	}
}

// TestJoinStreamsFingerprint: other limits, and another kind of join, are another topology.
func TestJoinStreamsFingerprint(t *testing.T) {
	seen := map[string]string{}
	for name, join := range map[string]joinWords{"inner": innerWords, "left": leftWords} {
		for _, w := range []topology.JoinWindows{
			topology.Within(time.Second), topology.Within(time.Second).Grace(time.Second), topology.Within(time.Second).Before(0),
			topology.Within(time.Second).After(0),
		} {
			b := topology.NewBuilder("app")
			join(b, topology.From(b, leftTopic), topology.From(b, rightTopic), w).Into(resultTopic)
			fingerprint, what := mustBuild(t, b).Fingerprint(), name+" "+w.String()
			if same, ok := seen[fingerprint]; ok {
				t.Errorf("%s has the fingerprint of %s", what, same)
			}
			seen[fingerprint] = what
		}
	}
}
