package projection_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

type (
	stringRow    = projection.Row[string]
	stringChoice = projection.Choice[string, string]
)

var (
	commandTopic = topology.Topic("commands", schemas.Bytes(), schemas.JSON[projection.Command]())
	answerTopic  = topology.Topic("answers", schemas.Bytes(), schemas.JSON[projection.Answer]())
	servedTopic  = topology.Topic("served", schemas.String(), schemas.JSON[stringRow]())
)

func rowTopic(definition uint16) topology.TopicOf[string, stringRow] {
	return topology.Topic(fmt.Sprintf("rows-%d", definition), schemas.String(), schemas.JSON[stringRow]())
}

// choose declares a choice between definitions whose rows are read from topics.
func choose(b *topology.Builder, definitions ...uint16) stringChoice {
	var defined []projection.Defined[string, string]
	for _, n := range definitions {
		defined = append(defined, projection.Define(n, topology.From(b, rowTopic(n))))
	}
	c := projection.Choose(topology.From(b, commandTopic), "texts", schemas.String(), defined)
	c.Changes().Into(servedTopic)
	c.Answers().Into(answerTopic)
	return c
}

func newChoice(tb testing.TB, definitions ...uint16) *processortest.Driver {
	tb.Helper()
	return processortest.New(tb, func(b *topology.Builder) { choose(b, definitions...) })
}

// put writes rows as definition:key=value@version, where a value of "-" is a delete.
func put(d *processortest.Driver, rows ...string) {
	for _, text := range rows {
		var definition uint16
		definitionText, rest, _ := strings.Cut(text, ":")
		key, rest, _ := strings.Cut(rest, "=")
		value, versionText, _ := strings.Cut(rest, "@")
		var r stringRow
		if _, err := fmt.Sscan(definitionText+" "+versionText, &definition, &r.Version); err != nil {
			panic(err)
		}
		if r.Deleted = value == "-"; !r.Deleted {
			r.Value = value
		}
		b, err := json.Marshal(r)
		if err != nil {
			panic(err)
		}
		d.Pipe(rowTopic(definition).Name(), key, string(b))
	}
}

func order(d *processortest.Driver, c projection.Command, opts ...topologytest.PipeOption) {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	d.Pipe("commands", "op", string(b), opts...)
}

// served returns what was passed on since the last time.
func served(tb testing.TB, d *processortest.Driver) string {
	tb.Helper()
	var all []string
	for _, r := range d.Take("served") {
		var v stringRow
		if err := json.Unmarshal(r.Value, &v); err != nil {
			tb.Fatal(err)
		}
		text := fmt.Sprintf("%s=%s@%d", r.Key, v.Value, v.Version)
		if v.Deleted {
			text = fmt.Sprintf("%s=-@%d", r.Key, v.Version)
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func wantServed(tb testing.TB, d *processortest.Driver, want string) {
	tb.Helper()
	if got := served(tb, d); got != want {
		tb.Errorf("served %q, want %q", got, want)
	}
}

// wantAnswers compares the answers since the last time, as "outcome active (keys missing behind
// contrary extra different)".
func wantAnswers(tb testing.TB, d *processortest.Driver, want string) {
	tb.Helper()
	var all []string
	for _, r := range d.Take("answers") {
		var v projection.Answer
		if err := json.Unmarshal(r.Value, &v); err != nil {
			tb.Fatal(err)
		}
		c := v.Comparison
		all = append(all, fmt.Sprintf("%s %d (%d %d %d %d %d %d)", v.Outcome, v.Active, c.Keys, c.Missing, c.Behind,
			c.Contrary, c.Extra, c.Different))
		if v.Reason == "" || string(r.Key) != "op" {
			tb.Errorf("the answer is %+v", v)
		}
	}
	if got := strings.Join(all, "; "); got != want {
		tb.Errorf("the answers are %q, want %q", got, want)
	}
}

// TestVerifySwitchAndRollBack: the rows of the next definition are kept beside those that are
// served, are compared, are served after a switch, and no more after the roll back. Requirement D5.
func TestVerifySwitchAndRollBack(t *testing.T) {
	d := newChoice(t, 1, 2)
	put(d, "1:a=a@1", "1:b=b@1", "2:a=A@1", "1:c=-@3", "1:same=s@1", "2:same=s@1")
	wantServed(t, d, "a=a@1 b=b@1 c=-@3 same=s@1")
	order(d, projection.Command{ID: "1", Action: projection.Verify, From: 1, To: 2})
	order(d, projection.Command{ID: "2", Action: projection.Switch, From: 1, To: 2})
	wantAnswers(t, d, "refused 1 (4 2 0 0 0 1); refused 1 (4 2 0 0 0 1)")
	wantServed(t, d, "")

	put(d, "2:b=B@1", "2:c=-@3", "2:new=N@1")
	order(d, projection.Command{ID: "3", Action: projection.Verify, From: 1, To: 2})
	wantAnswers(t, d, "verified 1 (5 0 0 0 1 3)")
	wantServed(t, d, "")
	d.Restart()
	order(d, projection.Command{ID: "4", Action: projection.Switch, From: 1, To: 2})
	wantAnswers(t, d, "switched 2 (5 0 0 0 1 3)")
	wantServed(t, d, "a=A@1 b=B@1 new=N@1")

	d.Restart()
	put(d, "1:a=aa@2", "2:a=AA@2", "2:b=BB@2")
	wantServed(t, d, "a=AA@2 b=BB@2")
	order(d, projection.Command{ID: "5", Action: projection.Switch, From: 2, To: 1})
	wantAnswers(t, d, "refused 2 (5 1 1 0 0 2)")
	order(d, projection.Command{ID: "6", Action: projection.Switch, From: 2, To: 1, Force: true})
	wantAnswers(t, d, "switched 1 (5 1 1 0 0 2)")
	wantServed(t, d, "a=aa@2 b=b@1")
	put(d, "2:a=AAA@3", "1:b=bb@2")
	wantServed(t, d, "b=bb@2")
	d.WantCounts("texts.refused=3 texts.switched=2 texts.verified=1 " +
		"texts-1.held=1 texts-1.passed=5 texts-2.held=6 texts-2.passed=2")
}

// TestCommandIsObeyedOnce: a command that comes again is not obeyed again, also after a roll back.
// Requirement D5.
func TestCommandIsObeyedOnce(t *testing.T) {
	d := newChoice(t, 1, 2)
	put(d, "1:a=a@1", "2:a=A@1")
	there := projection.Command{ID: "there", Action: projection.Switch, From: 1, To: 2}
	back := projection.Command{ID: "back", Action: projection.Switch, From: 2, To: 1}
	order(d, there)
	order(d, there)
	order(d, back)
	order(d, there)
	wantAnswers(t, d, "switched 2 (1 0 0 0 0 1); repeated 2 (1 0 0 0 0 1); switched 1 (1 0 0 0 0 1); "+
		"repeated 1 (1 0 0 0 0 1)")
	wantServed(t, d, "a=a@1 a=A@1 a=a@1")
	order(d, projection.Command{ID: "x", Action: projection.Switch, From: 2, To: 1})
	wantAnswers(t, d, "refused 1 (1 0 0 0 0 1)")
	there.Force = true
	order(d, there)
	d.WantDeadLetter("texts", topology.Conflict, "the id of the command was seen before with another command")
}

// TestComparisonHoldsADefinitionBack: what is behind, and what contradicts, keeps a definition from
// following. Requirement D5.
func TestComparisonHoldsADefinitionBack(t *testing.T) {
	d := newChoice(t, 1, 2, 3)
	put(d, "1:behind=x@2", "2:behind=x@1", "1:gone=-@1", "2:gone=g@1", "1:ahead=x@1", "2:ahead=x@2",
		"2:extra=e@1", "3:third=t@1", "1:equal=x@1", "2:equal=x@1", "3:equal=y@1")
	served(t, d)
	order(d, projection.Command{ID: "1", Action: projection.Switch, From: 1, To: 2})
	wantAnswers(t, d, "refused 1 (5 0 1 1 1 4)")
	order(d, projection.Command{ID: "2", Action: projection.Verify, From: 1, To: 2, Force: true})
	wantAnswers(t, d, "refused 1 (5 0 1 1 1 4)")
	order(d, projection.Command{ID: "3", Action: projection.Switch, From: 1, To: 2, Force: true})
	wantAnswers(t, d, "switched 2 (5 0 1 1 1 4)")
	wantServed(t, d, "ahead=x@2 behind=x@1 extra=e@1 gone=g@1")
}

// TestChoicePerPartition: a command is obeyed where it is read, and nowhere else.
func TestChoicePerPartition(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) { choose(b, 1, 2) }, topologytest.Partitions(2))
	command := projection.Command{ID: "1", Action: projection.Switch, From: 1, To: 2}
	for partition := range int32(2) {
		for definition := range uint16(2) {
			d.Pipe(rowTopic(definition+1).Name(), fmt.Sprint("k", partition),
				fmt.Sprintf(`{"version":1,"value":"%d"}`, definition+1), topologytest.ToPartition(partition))
		}
	}
	wantServed(t, d, "k0=1@1 k1=1@1")
	order(d, command, topologytest.ToPartition(1))
	wantServed(t, d, "k1=2@1")
	order(d, command, topologytest.ToPartition(0))
	wantServed(t, d, "k0=2@1")
}

// TestChoiceRows: rows do not go back, and need a key.
func TestChoiceRows(t *testing.T) {
	d := newChoice(t, 1, 2)
	put(d, "1:a=b@2", "1:a=a@1", "1:a=b@2")
	wantServed(t, d, "a=b@2 a=b@2")
	d.WantCounts("texts-1.passed=2 texts-1.stale=1")
}

func TestCommandRefused(t *testing.T) {
	d := newChoice(t, 1, 2)
	for reason, c := range map[string]projection.Command{
		"the id is missing": {Action: projection.Verify, From: 1, To: 2},
		"the action of the command is neither verify nor switch": {ID: "1", Action: "drop", From: 1, To: 2},
		"the command is about one definition alone":              {ID: "1", Action: projection.Switch, From: 1, To: 1},
		"the command is about a definition that is not declared": {ID: "1", Action: projection.Switch, From: 1, To: 3},
	} {
		order(d, c)
		d.WantDeadLetter("texts", topology.Validation, reason)
	}
	d.Want("answers")
}

// TestActiveIsNoted: a program that declares other definitions does not switch by that.
func TestActiveIsNoted(t *testing.T) {
	d := newChoice(t, 1, 2)
	put(d, "1:a=a@1")
	later := newChoice(t, 2, 1)
	gone := newChoice(t, 2, 3)
	for key, value := range d.Rows("texts-active", 0) {
		later.SetRow("texts-active", key, value)
		gone.SetRow("texts-active", key, value)
	}
	put(later, "2:a=A@1", "1:a=a@1")
	wantServed(t, later, "a=a@1")
	err := gone.PipeRaw("rows-2", []byte("a"), []byte(`{"version":1,"value":"A"}`))
	if err == nil || !strings.Contains(err.Error(), "config: definition 1 is the active one, and is not declared") {
		t.Errorf("Pipe returned %v", err)
	}
}

// TestGoldenChoice pins what is stored, for ever.
func TestGoldenChoice(t *testing.T) {
	var c stringChoice
	d := processortest.New(t, func(b *topology.Builder) { c = choose(b, 1, 258) })
	put(d, "258:a\x00b=x@5", "1:a\x00b=x@5")
	want := map[string]string{
		"a\x00\xffb\x00\x01\x00\x01": "01" + "0000" + "00" + "0000000000000005" + "78",
		"a\x00\xffb\x00\x01\x01\x02": "01" + "0000" + "00" + "0000000000000005" + "78",
	}
	got := d.Rows("texts-rows", 0)
	for k, v := range got {
		got[k] = hex.EncodeToString([]byte(v))
	}
	if !maps.Equal(got, want) {
		t.Errorf("the rows are %q, want %q", got, want)
	}
	order(d, projection.Command{ID: "c", Action: projection.Switch, From: 1, To: 258})
	active, err := topologytest.Store(d.Driver, c.ActiveStore(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if n, ok, err := active.Get("active"); n != 258 || !ok || err != nil {
		t.Error(n, ok, err)
	}
	answers, err := topologytest.Store(d.Driver, c.AnswerStore(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if v, ok, err := answers.Get("c"); v.Outcome != projection.Switched || v.Active != 258 || !ok || err != nil {
		t.Error(v, ok, err)
	}
	if b := d.Rows("texts-answers", 0)["c"]; !strings.HasPrefix(b, "\x01{") {
		t.Errorf("the answer is %q", b)
	}
}

func TestChooseMistakes(t *testing.T) {
	commands := func(b *topology.Builder) topology.Stream[[]byte, projection.Command] {
		return topology.From(b, commandTopic)
	}
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		one := []projection.Defined[string, string]{projection.Define(1, topology.From(b, rowTopic(1)))}
		projection.Choose(commands(b), "texts", nil, one, nil)
		return processortest.Above()
	}, "an option is nil", "there are 1 definitions; a choice is between two at least", "the codec of the states is nil")
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		two := []projection.Defined[string, string]{
			projection.Define(1, topology.From(b, rowTopic(1))), projection.Define(2, topology.From(b, rowTopic(2)))}
		two[1] = projection.Define(1, topology.From(b, rowTopic(3)))
		two = append(two, projection.Define(0, topology.From(b, rowTopic(4))))
		projection.Choose(commands(b), "texts", schemas.String(), two, projection.ChooseKey(schemas.Int64()))
		return processortest.Above()
	}, "Define(1) is there twice\nDefine(0): versions of a definition count from 1", "Key: the codec is not one for string",
		"the name is taken")
}

// choiceStep is one step of a random history: a row or a command.
type choiceStep struct {
	Row     string
	Command projection.Command
	Restart bool
}

var choiceSteps = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) choiceStep {
	step := choiceStep{Restart: rapid.IntRange(0, 9).Draw(t, "restart") == 0}
	definition := rapid.Uint16Range(1, 2)
	if rapid.IntRange(0, 3).Draw(t, "kind") > 0 {
		step.Row = fmt.Sprintf("%d:%s=%s@%d", definition.Draw(t, "definition"),
			rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key"),
			rapid.SampledFrom([]string{"x", "y", "-"}).Draw(t, "value"), rapid.IntRange(1, 3).Draw(t, "version"))
		return step
	}
	from := definition.Draw(t, "from")
	step.Command = projection.Command{
		ID:     rapid.SampledFrom([]string{"1", "2", "3", "4", "5", "6"}).Draw(t, "id"),
		Action: rapid.SampledFrom([]projection.Action{projection.Verify, projection.Switch}).Draw(t, "action"),
		From:   from, To: 3 - from, Force: rapid.Bool().Draw(t, "force"),
	}
	return step
}), 1, 60)

// checkServed holds a consumer of the changes against the rows of the active definition: after
// every step it has the last row of each key that this definition has. Where lossy is true it
// misses what comes of commands.
func checkServed(tb testing.TB, history []choiceStep, lossy bool) error {
	d := newChoice(tb, 1, 2)
	rows := [3]map[string]string{1: {}, 2: {}}
	consumer := map[string]string{}
	active := uint16(1)
	for i, step := range history {
		if step.Restart {
			d.Restart()
		}
		if step.Row != "" {
			put(d, step.Row)
			definition, rest, _ := strings.Cut(step.Row, ":")
			key, row, _ := strings.Cut(rest, "=")
			of := rows[definition[0]-'0']
			if old := of[key]; old == "" || row[len(row)-1] >= old[len(old)-1] {
				of[key] = row
			}
		} else {
			order(d, step.Command)
		}
		for _, text := range strings.Fields(served(tb, d)) {
			if key, row, _ := strings.Cut(text, "="); !lossy || step.Row != "" {
				consumer[key] = row
			}
		}
		for _, r := range d.Take("answers") {
			var v projection.Answer
			if err := json.Unmarshal(r.Value, &v); err != nil {
				return err
			}
			if v.Outcome == projection.Switched && (v.Command.From != active || v.Active == active) {
				return fmt.Errorf("step %d of %+v switches from %d: %+v", i, history, active, v)
			}
			active = v.Active
		}
		d.Take("dead") // one id with two commands
		for key, row := range rows[active] {
			if consumer[key] != row {
				return fmt.Errorf("after step %d of %+v the consumer has %q of %s, and definition %d has %q", i, history,
					consumer[key], key, active, row)
			}
		}
	}
	return nil
}

func TestServedFollowsActive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		if err := checkServed(t, choiceSteps.Draw(rt, "history"), false); err != nil {
			rt.Fatal(err)
		}
	})
}

// TestServedNeedsDifferences is the control.
func TestServedNeedsDifferences(t *testing.T) {
	for seed := range 50 {
		if checkServed(t, choiceSteps.Example(seed), true) != nil {
			return
		}
	}
	t.Error("a consumer that misses what a switch passes on is not found")
}

// TestClausesOfChoice: the contract says what becomes of commands, and of the rows of each
// definition. Requirement K3.
func TestClausesOfChoice(t *testing.T) {
	b := topology.NewBuilder("app", topology.DeadLetters("dead"))
	choose(b, 1, 2)
	topo, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for _, c := range topo.Clauses() {
		said[c.Node+" "+c.Aspect.String()] = c.Text
	}
	for place, text := range map[string]string{
		"texts key assumption": "every partition", "texts idempotency key": "the id of the command", "texts on duplicate": "answered as repeated",
		"texts out of order": "not active is refused", "texts on replay": "answered as repeated", "texts retention": "for ever",
		"texts-1 key assumption": "not null", "texts-1 out of order": "Rows of definition 1 are held back",
		"texts-2 out of order": "Rows of definition 2 are held back", "texts-2 on duplicate": "takes its place", "texts-2 retention": "for ever",
	} {
		if !strings.Contains(said[place], text) {
			t.Errorf("%s: the contract does not say %q: %q", place, text, said[place])
		}
	}
}
