package deadletter_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/onceward/onceward/processors/deadletter"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

type record = topology.Record[string, string]

var (
	inTopic   = topology.Topic("in", schemas.String(), schemas.String())
	outTopic  = topology.Topic("out", schemas.String(), schemas.String())
	deadTopic = topology.Topic("dead", schemas.Bytes(), schemas.Bytes())
)

// TestSend: the dead letter is the input record as it was read, and nothing else of it remains: no
// output of a sibling, no row of the inbox before it.
func TestSend(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		id := func(r record) (string, error) { return r.Value, nil }
		once := inbox.Dedupe(topology.From(b, inTopic), "inbox", id, inbox.Forever())
		once.Accepted().Into(outTopic)
		shout := func(v string) (string, error) { return strings.ToUpper(v), nil }
		bad := topology.MapValues(once.Accepted(), "shout", shout).Filter("bad", func(r record) (bool, error) {
			return r.Value == "BAD", nil
		})
		deadletter.Send(bad, "refused", topology.Validation, "the text is bad")
	})
	d.Pipe("in", "k", "good")
	d.Pipe("in", "k", "bad", topologytest.Header("x", "y"))
	d.Want("out", "good")
	letter := d.WantDeadLetter("refused", topology.Validation, "the text is bad")
	if string(letter.Key) != "k" || string(letter.Value) != "bad" || letter.Headers[0].Key != "x" {
		t.Errorf("the dead letter is %s=%s, %v", letter.Key, letter.Value, letter.Headers)
	}
	if rows := d.Rows("inbox", 0); len(rows) != 1 || rows["good"] == "" {
		t.Errorf("the store has %q", rows)
	}
	d.WantCounts("inbox.accepted=1 refused.dead-letter-validation=1")
}

// TestSendConflicts: the way to give the conflicts of an inbox a reason of one's own.
func TestSendConflicts(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		id := func(record) (string, error) { return "id", nil }
		once := inbox.Dedupe(topology.From(b, inTopic), "inbox", id, inbox.Forever(), inbox.EmitConflicts())
		deadletter.Send(once.Conflicts(), "disputed", topology.Conflict, "two texts under one id")
	})
	d.Pipe("in", "k", "one")
	d.Pipe("in", "k", "two")
	d.WantDeadLetter("disputed", topology.Conflict, "two texts under one id")
}

// TestSendIgnoresPolicies: what is sent dies, whatever the topology does with errors of the class.
func TestSendIgnoresPolicies(t *testing.T) {
	for _, class := range []topology.Class{topology.Conflict, topology.Validation, topology.Poison} {
		b := topology.NewBuilder("app", topology.DeadLetters("dead"),
			topology.OnError(class, topology.Policy{Action: topology.Stop}))
		deadletter.Send(topology.From(b, inTopic), "refused", class, "no")
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		d, err := topologytest.New(top)
		if err != nil {
			t.Fatal(err)
		}
		if err := topologytest.Pipe(d, inTopic, "k", "v"); err != nil {
			t.Fatal(err)
		}
		letters, err := d.DeadLetters()
		if err != nil || len(letters) != 1 || letters[0].Info.Class != class {
			t.Errorf("class %s: there are the dead letters %v, %v", class, letters, err)
		}
	}
}

// TestSendWithoutTopic: where there is no dead-letter topic, the task stops and the record stays.
func TestSendWithoutTopic(t *testing.T) {
	b := topology.NewBuilder("app")
	deadletter.Send(topology.From(b, inTopic), "refused", topology.Validation, "no")
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d, err := topologytest.New(top)
	if err != nil {
		t.Fatal(err)
	}
	err = topologytest.Pipe(d, inTopic, "k", "v")
	if err == nil || !strings.Contains(err.Error(), "no dead-letter topic") {
		t.Errorf("Pipe returned %v", err)
	}
}

func TestMistakes(t *testing.T) {
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		deadletter.Send(topology.From(b, inTopic), "ref used", topology.Fatal, "")
		return processortest.Above()
	}, `name of the node: "ref used"`, "fatal is no class for a dead letter on purpose", "the reason is empty")
	for _, class := range []topology.Class{0, topology.Transient, topology.Overload, topology.Config,
		topology.Corruption, topology.Fatal + 1} {
		processortest.WantMistakes(t, func(b *topology.Builder) int {
			deadletter.Send(topology.From(b, inTopic), "refused", class, "no")
			return processortest.Above()
		}, class.String()+" is no class for a dead letter on purpose")
	}
}

// take returns the dead letters as a reader of the topic gets them.
func take(tb testing.TB, d *topologytest.Driver) []topology.Record[[]byte, []byte] {
	tb.Helper()
	records, err := topologytest.Output(d, deadTopic)
	if err != nil {
		tb.Fatal(err)
	}
	return records
}

// equalHeaders compares headers with key=value pairs.
func equalHeaders(headers []topology.Header, pairs ...string) bool {
	var got []string
	for _, h := range headers {
		got = append(got, h.Key+"="+string(h.Value))
	}
	return strings.Join(got, " ") == strings.Join(pairs, " ")
}

func equalBytes(got []byte, want string) bool { return got != nil && bytes.Equal(got, []byte(want)) }

// TestClauses is requirement K3: the contract says what fails on purpose, in one line whatever the
// reason is.
func TestClauses(t *testing.T) {
	b := topology.NewBuilder("app", topology.DeadLetters("dead"))
	deadletter.Send(topology.From(b, inTopic), "refused", topology.Validation, "no\nreason")
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	want := topology.Clause{
		Node: "refused", Aspect: topology.OnPoison, Text: `every record that comes here fails on purpose, of class validation: "no\nreason"`,
	}
	if got := topo.Clauses(); len(got) != 1 || got[0] != want {
		t.Errorf("the clauses are %+v", got)
	}
}
