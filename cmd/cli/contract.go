package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// contractCommand prints what those may rely on who feed a topology or read from it. It touches
// neither the cluster nor the disk.
type contractCommand struct {
	named
	Output string `enum:"text,markdown,json" default:"text" placeholder:"FORMAT" env:"ONCEWARD_CONTRACT_OUTPUT" help:"Form of the result: text, markdown or json; default ${default}."`
}

func (c *contractCommand) Run(p *process) error {
	t, err := c.topology(p)
	if err != nil {
		return err
	}
	contract := contractOf(t)
	switch c.Output {
	case "json":
		return writeJSON(p.out, contract)
	case "markdown":
		_, err = io.WriteString(p.out, contract.markdown())
	default:
		_, err = io.WriteString(p.out, contract.text())
	}
	return err
}

// contract is a consumer contract. Its fields are for programs and stay.
type contract struct {
	Name        string            `json:"name"`
	Application string            `json:"application"`
	Version     string            `json:"version"`
	Sections    []contractSection `json:"sections"`
}

// contractSection is one aspect with what is said about it.
type contractSection struct {
	Title string   `json:"title"`
	Lines []string `json:"lines"`
}

// contractOf collects the declarations of a topology. Every section is there, so that missing
// promises are visible as well.
func contractOf(t *topology.Topology) contract {
	c := contract{Name: t.Name(), Application: t.Application(), Version: t.Fingerprint()}
	add := func(title, none string, lines ...string) {
		if len(lines) == 0 {
			lines = []string{none}
		}
		c.Sections = append(c.Sections, contractSection{Title: title, Lines: lines})
	}
	said := map[topology.Aspect][]string{}
	for _, clause := range t.Clauses() {
		said[clause.Aspect] = append(said[clause.Aspect], clause.Node+": "+clause.Text)
	}
	add("inputs", "", inputsOf(t)...)
	add("outputs", "none", outputsOf(t)...)
	add("key assumption", "records of one key are in one partition, and in order there", said[topology.KeyAssumption]...)
	add("delivery", "", "exactly once from the inputs to the outputs, state included: consumers that read committed "+
		"records see every effect of an input record once, or none before its transaction")
	add("side effects", "no node declares any", said[topology.SideEffects]...)
	add("idempotency key", "none: a record that a producer has written twice is two records", said[topology.IdempotencyKey]...)
	add("commit point", "",
		"offsets, outputs, state and dead letters commit in one Kafka transaction, of the group "+t.Application())
	add("on duplicate", "nothing recognises one: it is processed as a record of its own", said[topology.OnDuplicate]...)
	add("out of order", "", orderOf(t, said[topology.OutOfOrder])...)
	add("poison", "", append(poisonOf(t), said[topology.OnPoison]...)...)
	add("on replay", "", append([]string{"the same records give the same outputs, but for what depends on the clock: " +
		"schedules by it, and when a record that has failed is tried again. Outputs carry the header " + topology.HeaderMode +
		" where the application does not run live"}, said[topology.OnReplay]...)...)
	add("retention", "state is kept without a limit", append(said[topology.Retention], retentionsOf(t)...)...)
	return c
}

// orderOf says in which order records are processed, and which ones change it because they fail.
func orderOf(t *topology.Topology, said []string) []string {
	lines := said
	if len(lines) == 0 {
		lines = []string{"the records of a partition are processed in the order of their offsets, whatever their timestamps"}
	}
	can := map[topology.Action]bool{}
	for _, r := range t.Reactions() {
		can[r.Policy.Action] = true
	}
	if can[topology.Delay] {
		lines = append(lines, "a record that fails and is delayed is overtaken by later ones, those of its key included")
		lines = append(lines, delaysOf(t)...)
	}
	if can[topology.Park] {
		lines = append(lines, "a record that fails and is parked, and those of its key behind it, are overtaken by those of other keys")
	}
	return lines
}

// delaysOf says for each source with delayed retry topics how long a record waits there.
func delaysOf(t *topology.Topology) (lines []string) {
	for _, sub := range t.Subtopologies() {
		for _, s := range sub.Sources {
			var delays []time.Duration
			for _, retry := range sub.Sources {
				if s.Delay == 0 && retry.Delay > 0 && retry.Topic == s.RetryTopic(t.Application(), retry.Delay) {
					delays = append(delays, retry.Delay)
				}
			}
			if len(delays) == 0 {
				continue
			}
			slices.Sort(delays) // sources are in the order of their names
			texts := make([]string, len(delays))
			for i, delay := range delays {
				texts[i] = delay.String()
			}
			lines = append(lines, fmt.Sprintf("%s: a record that is delayed waits %s before it is tried again, in topics of its own",
				s.Topic, strings.Join(texts, ", then ")))
		}
	}
	return lines
}

func inputsOf(t *topology.Topology) (lines []string) {
	for _, sub := range t.Subtopologies() {
		for _, s := range sub.Sources {
			if !s.Repartition {
				lines = append(lines, fmt.Sprintf("%s: key %s, value %s; a new application starts at %s",
					s.Topic, s.KeyFormat, s.ValueFormat, s.Start))
			}
		}
	}
	for _, p := range t.Patterns() {
		lines = append(lines, fmt.Sprintf("topics that match %s: key %s, value %s; each is read from its first record, also a new one",
			p.Expression, p.KeyFormat, p.ValueFormat))
	}
	for _, table := range t.Description().GlobalTables {
		lines = append(lines, fmt.Sprintf("%s: key %s, value %s; a global table: every instance reads all of it",
			table.Topic, table.TopicKeyFormat, table.TopicValueFormat))
	}
	return lines
}

func outputsOf(t *topology.Topology) (lines []string) {
	internal := map[string]bool{}
	for _, topic := range t.InternalTopics() {
		internal[topic] = true
	}
	for _, sub := range t.Description().Subtopologies {
		for _, topic := range sub.Sinks {
			if !internal[topic] {
				lines = append(lines, topic)
			}
		}
	}
	return lines
}

// poisonOf returns the reactions to records that fail.
func poisonOf(t *topology.Topology) (lines []string) {
	letters := t.DeadLetterTopic()
	for _, r := range t.Reactions() {
		line := r.Class.String() + ": " + reactionText(r.Policy, letters)
		if r.Node != "" {
			line = r.Node + ": " + line
		}
		lines = append(lines, line)
	}
	return lines
}

// reactionText says what a policy does with a record, and with those that come after it.
func reactionText(p topology.Policy, letters string) string {
	attempts := "attempts without a limit"
	if p.Attempts > 0 {
		attempts = fmt.Sprintf("up to %d attempts", p.Attempts)
	}
	then := ", then " + actionText(p.Then, letters)
	if p.Attempts == 0 {
		then = ""
	}
	switch p.Action {
	case topology.Retry:
		return fmt.Sprintf("%s, %s to %s between them%s", attempts, p.Backoff, p.BackoffMax, then)
	case topology.Park:
		return fmt.Sprintf("parked, and the later records of its key behind it: %s, %s to %s between them%s",
			attempts, p.Backoff, p.BackoffMax, then)
	case topology.Delay:
		return fmt.Sprintf("delayed, and overtaken by the later records of its key: %s%s", attempts, then)
	default:
		return actionText(p.Action, letters)
	}
}

func actionText(a topology.Action, letters string) string {
	switch {
	case a == topology.DeadLetter && letters != "":
		return "dead letter in " + letters
	case a == topology.DeadLetter:
		return "the task stops, because there is no dead-letter topic"
	}
	return "the task stops"
}

func retentionsOf(t *topology.Topology) (lines []string) {
	for _, sub := range t.Subtopologies() {
		for _, s := range sub.Stores {
			switch {
			case s.LostOnRestart:
				lines = append(lines, fmt.Sprintf("store %s: %s, lost on restart: it is empty whenever its task is opened", s.Name, s.Layout))
			case s.Layout != (state.Layout{}):
				lines = append(lines, fmt.Sprintf("store %s: %s", s.Name, s.Layout))
			}
		}
	}
	for _, w := range t.DedupeWindows() {
		line := fmt.Sprintf("%s: what came from %s is known for %s of stream time", w.Node,
			cmp.Or(strings.Join(w.Topics, ", "), "its inputs"), w.Retention)
		if w.Tolerated {
			line += ", although the topics may keep it for longer"
		}
		lines = append(lines, line)
	}
	return lines
}

func (c contract) text() string {
	var text strings.Builder
	fmt.Fprintf(&text, "consumer contract of %s\napplication %s, version %s\n", c.Name, c.Application, c.Version)
	for _, s := range c.Sections {
		fmt.Fprintf(&text, "\n%s\n", s.Title)
		for _, line := range s.Lines {
			fmt.Fprintf(&text, "  %s\n", line)
		}
	}
	return text.String()
}

// markdownEscaper takes away the meaning that characters of names and sentences have in Markdown.
var markdownEscaper = strings.NewReplacer("\\", "\\\\", "*", "\\*", "_", "\\_", "`", "\\`", "<", "\\<", "[", "\\[", "|", "\\|")

func (c contract) markdown() string {
	var text strings.Builder
	esc := markdownEscaper.Replace
	fmt.Fprintf(&text, "# Consumer contract of %s\n\nApplication %s, version %s.\n", esc(c.Name), esc(c.Application), c.Version)
	for _, s := range c.Sections {
		fmt.Fprintf(&text, "\n## %s\n\n", strings.ToUpper(s.Title[:1])+s.Title[1:])
		for _, line := range s.Lines {
			fmt.Fprintf(&text, "- %s\n", esc(line))
		}
	}
	return text.String()
}
