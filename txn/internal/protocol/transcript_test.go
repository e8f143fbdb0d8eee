package protocol

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// Transcripts tell one story each: testdata/*.txt, blocks of
//
//	steps
//	<commands, one a line>
//	----
//	<for each command: the command, the machine's state, the effects>
//	<the logs, the offsets, the store and what waits, after the last command>
//
// Commands that give the machine an event: joined [n=] [task=], full, due, dropped [task=], answer
// <event> [round=] [truth=] [reached=] (round is the one that waits for such an answer), raw
// <event> [round=] (around the model, for what a correct worker never does). Commands about the
// world: deliver round= n= (records arrive in their logs), expire round= (the broker's transaction
// timeout), assign task=, other-owner n=, lie task= (the offset of a task goes back), restart,
// drain (everything goes well until nothing is left; the verdict must be good). "cannot <command>"
// is for what the world or the worker refuses. A broken rule fails the test; it is never part of a
// transcript.

// transcript runs the commands of one file.
type transcript struct {
	model   *model
	effects []Effect
	// observe is told of every step of every model.
	observe func(before State, e Event, after State, effects []Effect)
}

func newTranscript(observe func(State, Event, State, []Effect)) *transcript {
	ts := &transcript{observe: observe}
	ts.reset(2, 30, 1)
	return ts
}

func (ts *transcript) reset(tasks, input int, first uint64) {
	ts.model = newModel(Step, tasks, input, first)
	ts.model.observe = func(before State, e Event, after State, effects []Effect) {
		ts.effects = append(ts.effects, effects...)
		ts.observe(before, e, after, effects)
	}
}

// run answers one directive of a file.
func (ts *transcript) run(t testing.TB, d *datadriven.TestData) string {
	var out strings.Builder
	switch d.Cmd {
	case "new":
		tasks, input, first := 2, 30, uint64(1)
		d.MaybeScanArgs(t, "tasks", &tasks)
		d.MaybeScanArgs(t, "input", &input)
		d.MaybeScanArgs(t, "first", &first)
		ts.reset(tasks, input, first)
		return ""
	case "reachable":
		return explore(t).table()
	case "steps":
		for line := range strings.SplitSeq(d.Input, "\n") {
			text, err := ts.line(line)
			if err != nil {
				t.Fatalf("%s: %s: %v", d.Pos, line, err)
			}
			out.WriteString(strings.TrimRight(text, " ") + "\n")
		}
	default:
		t.Fatalf("%s: no directive %q", d.Pos, d.Cmd)
	}
	out.WriteString(ts.model.draw())
	return out.String()
}

// line runs one command. A refusal that the file does not announce is an error, and so is one that
// does not come: -rewrite must not be able to make a story of it.
func (ts *transcript) line(line string) (string, error) {
	ts.effects = nil
	command, refused := strings.CutPrefix(line, "cannot ")
	err := ts.command(command)
	if errors.Is(err, errNotNow) == refused {
		if refused {
			return fmt.Sprintf("%-42s %v", line, err), ts.model.err
		}
		if err == nil {
			err = ts.model.err
		}
	} else if err == nil {
		err = errors.New("it can")
	}
	effects := drawEffects(ts.effects)
	if command == "drain" {
		effects = "" // they tell nothing
	}
	return fmt.Sprintf("%-42s %-40s %s", line, ts.model.state, effects), err
}

// arguments of one command.
type arguments struct {
	words []string
	named map[string]string
	err   error
}

func parseCommand(line string) (arguments, error) {
	cmd, args, err := datadriven.ParseLine(line)
	if err != nil {
		return arguments{}, err
	}
	a := arguments{words: []string{cmd}, named: map[string]string{}}
	for _, arg := range args {
		if len(arg.Vals) == 0 {
			a.words = append(a.words, arg.Key)
			continue
		}
		a.named[arg.Key] = arg.Vals[0]
	}
	return a, nil
}

func (a *arguments) number(key string, otherwise int) int {
	v, ok := a.named[key]
	if !ok {
		return otherwise
	}
	delete(a.named, key)
	n, err := strconv.Atoi(v)
	if err != nil {
		a.err = err
	}
	return n
}

func (a *arguments) word(key string) string {
	v := a.named[key]
	delete(a.named, key)
	return v
}

// done reports what was wrong with the arguments: an unknown one must not pass as a default.
func (a *arguments) done() error {
	for key := range a.named {
		return fmt.Errorf("%s takes no argument %q", a.words[0], key)
	}
	return a.err
}

func (ts *transcript) command(line string) error {
	a, err := parseCommand(line)
	if err != nil {
		return err
	}
	task, n, round := a.number("task", 0), a.number("n", 1), a.number("round", 0)
	reached, truth := a.number("reached", 0), truth(a.word("truth"))
	if err := a.done(); err != nil {
		return err
	}
	m := ts.model
	switch a.words[0] {
	case "joined":
		return m.join(task, n)
	case "full":
		return m.fill()
	case "due":
		return m.dueNow()
	case "dropped":
		return m.drop(task)
	case "assign":
		return m.assign(task)
	case "other-owner":
		return m.takeOver(n)
	case "expire":
		return m.expire(uint64(round))
	case "deliver":
		return m.deliver(uint64(round), n)
	case "lie":
		c := &m.broker.committed[task]
		c.next, c.round = m.store[task].next, m.store[task].round
		return nil
	case "restart":
		m.restart()
		return nil
	case "drain":
		m.drain()
		return m.verdict()
	}
	if len(a.words) != 2 || a.words[0] != "answer" && a.words[0] != "raw" {
		return fmt.Errorf("no command %q", line)
	}
	kind, err := ParseEvent(a.words[1])
	if err != nil {
		return err
	}
	if a.words[0] == "raw" {
		m.mayStop = true
		m.event(Event{Kind: kind, Round: uint64(round)})
		m.mayStop = false
		return nil
	}
	return ts.answer(reply{kind: kind, round: uint64(round), truth: truth, reached: reached})
}

// answer finds the round that waits for such an answer if none is named.
func (ts *transcript) answer(a reply) error {
	if a.round == 0 {
		for _, o := range ts.model.ops {
			if slices.Contains(answers[o.kind], a.kind) {
				if a.round != 0 {
					return fmt.Errorf("rounds %d and %d wait for %s", a.round, o.round, a.kind)
				}
				a.round = o.round
			}
		}
	}
	return ts.model.answer(a)
}

func drawEffects(effects []Effect) string {
	var out []string
	for _, f := range effects {
		out = append(out, f.String())
	}
	return strings.Join(out, "; ")
}

// draw renders logs, offsets, store, rounds and what waits.
func (m *model) draw() string {
	var out strings.Builder
	for _, part := range slices.Concat(m.broker.outputs, m.broker.changelog) {
		if len(part.items) > 0 {
			fmt.Fprintf(&out, "%s: %s\n", part.name, part.draw())
		}
	}
	at := func(next int, round uint64) string {
		if next == 0 {
			return "0"
		}
		return fmt.Sprintf("%d(%s)", next, roundName(round))
	}
	offsets, store, queue := "offsets:", "store:", "queue:"
	for i := range m.tasks {
		offsets += fmt.Sprintf(" t%d=%s", i, at(m.broker.committed[i].next, m.broker.committed[i].round))
		store += fmt.Sprintf(" t%d=%s", i, at(m.store[i].next, m.store[i].round))
		if q := m.tasks[i].queue; len(q) > 0 {
			queue += fmt.Sprintf(" t%d[%d-%d]", i, q[0], q[len(q)-1])
		}
		if !m.tasks[i].owned {
			queue += fmt.Sprintf(" t%d(not owned)", i)
		}
	}
	for i := range m.broker.producers {
		if t := m.broker.producers[i].txn; t != nil {
			for _, o := range t.offsets {
				offsets += fmt.Sprintf(" (pending t%d=%s)", o.task, at(o.next, o.round))
			}
		}
	}
	fmt.Fprintf(&out, "%s\n%s\n", offsets, store)
	if len(m.live) > 0 {
		fmt.Fprintf(&out, "rounds:%s\n", m.drawRounds())
	}
	fmt.Fprintf(&out, "%s\n", queue)
	if len(m.ops) > 0 {
		out.WriteString("waiting:")
		for _, o := range m.ops {
			fmt.Fprintf(&out, " (%s %d)", o.kind, o.round)
		}
		out.WriteString("\n")
	}
	return out.String()
}

func (m *model) drawRounds() string {
	out := ""
	for _, r := range m.live {
		out += fmt.Sprintf(" %d", r.n)
		for i := range m.tasks {
			var seqs []int
			for _, e := range r.journal {
				if e.task == i {
					seqs = append(seqs, e.seq)
				}
			}
			if len(seqs) > 0 {
				out += fmt.Sprintf("[t%d %d-%d]", i, seqs[0], seqs[len(seqs)-1])
			}
		}
		if r.rerun {
			out += "(dropped)"
		}
	}
	return out
}

func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		ts := newTranscript(func(State, Event, State, []Effect) {})
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return ts.run(t, d) })
	})
}
