package conformance

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/topology"
)

// describedNode is a node of a description.
type describedNode struct {
	name, kind string
	// has are the topics of a source, the stores of a processor, the topic of a sink.
	has []string
	// next and previous are the names behind the arrows.
	next, previous []string
}

// subtopology are its nodes by their names.
type subtopology map[string]*describedNode

var (
	subtopologyLine = regexp.MustCompile(`^ {2,3}Sub-topology: \S+( for global store \(will not generate tasks\))?$`)
	nodeLine        = regexp.MustCompile(`^    (?:(Source): (\S+) \(topics: (\[[^\[\]]+\]|\S*[*+?]\S*)\)|(Processor): (\S+) \(stores: \[(.*)\]\)|` +
		`(Sink): (\S+) \((topic: \S+|extractor class: .+)\))$`)
	nextLine     = regexp.MustCompile(`^      --> (.+)$`)
	previousLine = regexp.MustCompile(`^      <-- (.+)$`)
)

// parseDescription reads a description, ours or that of Kafka Streams.
func parseDescription(text string) ([]subtopology, error) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if lines[0] != "Topologies:" {
		return nil, fmt.Errorf("it begins with %q", lines[0])
	}
	var all []subtopology
	var n *describedNode
	for _, line := range lines[1:] {
		switch m := nodeLine.FindStringSubmatch(line); {
		case subtopologyLine.MatchString(line):
			all, n = append(all, subtopology{}), nil
		case line == "":
			n = nil
		case m != nil && len(all) > 0:
			i := slices.IndexFunc(m[1:], func(group string) bool { return group != "" }) + 1
			n = &describedNode{kind: m[i], name: m[i+1], has: splitList(strings.Trim(m[i+2], "[]"))}
			all[len(all)-1][n.name] = n
		case n != nil && n.kind != "Sink" && n.next == nil && nextLine.MatchString(line):
			n.next = splitList(nextLine.FindStringSubmatch(line)[1])
		case n != nil && n.kind != "Source" && n.previous == nil && previousLine.MatchString(line):
			n.previous = splitList(previousLine.FindStringSubmatch(line)[1])
		default:
			return nil, fmt.Errorf("a line that does not belong there: %q", line)
		}
	}
	for _, sub := range all {
		if err := sub.check(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// splitList splits what is in brackets or behind an arrow. It is not nil.
func splitList(text string) []string {
	if text == "" || text == "none" {
		return []string{}
	}
	return strings.Split(text, ", ")
}

// check wants both ends of each arrow.
func (s subtopology) check() error {
	for _, n := range s {
		if n.kind != "Sink" && n.next == nil || n.kind != "Source" && n.previous == nil {
			return fmt.Errorf("node %s is without its arrows", n.name)
		}
		for _, to := range n.next {
			if s[to] == nil || !slices.Contains(s[to].previous, n.name) {
				return fmt.Errorf("an arrow from %s to %s has no other end", n.name, to)
			}
		}
		for _, from := range n.previous {
			if s[from] == nil || !slices.Contains(s[from].next, n.name) {
				return fmt.Errorf("an arrow to %s from %s has no beginning", n.name, from)
			}
		}
	}
	return nil
}

var (
	// onlyThere are the processors of Kafka Streams that have none like them here.
	onlyThere = regexp.MustCompile(`^(KTABLE-TOSTREAM-\d+|KTABLE-SUPPRESS-\d+|split-\d|.*-repartition-filter)$`)
	// sides are those of a join of tables, with the store of the other one, those of a join of
	// streams, and the streams of a cogroup, with its store. Here they are one processor with what
	// is behind them.
	sides = regexp.MustCompile(`^((KTABLE-(JOIN|LEFT|OUTER)(THIS|OTHER)|COGROUPKSTREAM-AGGREGATE)-\d+|join-(this|other)-windowed|join-(outer-)?(this|other)-join)$`)
	// waiting are the stores of what waits until a window closes or a grace has passed.
	waiting = regexp.MustCompile(`-closing$|-(left|outer)-shared-join-store$|-[bB]uffer$`)
)

// reduce takes out what the package documentation says that the two sides do not share.
func (s subtopology) reduce() {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		n := s[name]
		switch {
		case sides.MatchString(name):
			for _, to := range n.next {
				s[to].has = append(s[to].has, n.has...)
			}
			s.takeOut(n)
		case onlyThere.MatchString(name):
			s.takeOut(n)
		}
	}
	for _, n := range s {
		if n.kind == "Processor" {
			n.has = slices.DeleteFunc(n.has, waiting.MatchString)
		}
	}
}

// takeOut has the arrows to n go on to what is behind it.
func (s subtopology) takeOut(n *describedNode) {
	instead := func(names, others []string) []string {
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == n.name })
		for _, other := range others {
			if !slices.Contains(names, other) {
				names = append(names, other)
			}
		}
		return names
	}
	for _, from := range n.previous {
		s[from].next = instead(s[from].next, n.next)
	}
	for _, to := range n.next {
		s[to].previous = instead(s[to].previous, n.previous)
	}
	delete(s, n.name)
}

// structure is what is left of a description without names: of each node what it has, what all is
// behind it, and what all is before it.
func structure(t *testing.T, text string) string {
	t.Helper()
	subs, err := parseDescription(text)
	if err != nil {
		t.Fatalf("%v, in\n%s", err, text)
	}
	all := make([]string, len(subs))
	for i, sub := range subs {
		sub.reduce()
		var nodes []string
		for _, n := range sub {
			behind := sub.walk(n, func(n *describedNode) []string { return n.next })
			before := sub.walk(n, func(n *describedNode) []string { return n.previous })
			nodes = append(nodes, behind+" <-- "+before)
		}
		slices.Sort(nodes)
		all[i] = strings.Join(nodes, "\n")
	}
	slices.Sort(all)
	return strings.Join(all, "\n\n")
}

// walk writes n and all that follows it.
func (s subtopology) walk(n *describedNode, follow func(n *describedNode) []string) string {
	var others []string
	for _, name := range follow(n) {
		others = append(others, s.walk(s[name], follow))
	}
	slices.Sort(others)
	has := slices.Compact(slices.Sorted(slices.Values(n.has)))
	return fmt.Sprintf("%s%v{%s}", n.kind, has, strings.Join(others, " "))
}

// otherStructures are the operators that have another structure there: the sink of one chooses its
// topic there, and the two processors of a join by a foreign key are five there.
var otherStructures = []string{
	"dynamic", "foreign-key-join", "foreign-key-left-join", "foreign-key-computed", "foreign-key-own",
	"foreign-key-versioned", "foreign-key-versioned-left",
}

// describedControls are topologies that are wrong in one detail of their description.
var describedControls = map[string]control{
	"another store": {"count", func(b *topology.Builder) {
		topology.Count(topology.From(b, keyed("in")), stored("counts")).Into(numbers("out"))
	}},
	"another topic to write": {"count", func(b *topology.Builder) {
		topology.Count(topology.From(b, keyed("in")), stored("count")).Into(numbers("out-of-it"))
	}},
	"another topic to read": {"count", func(b *topology.Builder) {
		topology.Count(topology.From(b, keyed("other")), stored("count")).Into(numbers("out"))
	}},
	"one processor more": {"count", func(b *topology.Builder) {
		peeked := topology.From(b, keyed("in")).Peek("look", func(topology.Record[string, maybeValue]) error { return nil })
		topology.Count(peeked, stored("count")).Into(numbers("out"))
	}},
	"an arrow from elsewhere": {"fan-out", func(b *topology.Builder) {
		s := anyInput(b).Filter("values", even)
		s.Into(anything("out-values"))
		s.Into(anything("out-all"))
	}},
	"a sub-topology more": {"table-group-count", func(b *topology.Builder) {
		topology.CountTable(groupedTable(b), stored("count")).Into(numbers("out"))
		topology.From(b, keyed("other")).Peek("look", func(topology.Record[string, maybeValue]) error { return nil })
	}},
	"a join with another table": {"table-join", func(b *topology.Builder) {
		topology.JoinTables(tableOf(b, "in"), tableOf(b, "in-too"), "join", func(_ string, l, r int64) (int64, error) { return l + r, nil }).
			Into(numbers("out"))
	}},
}

// TestOperatorDescriptionsAreThoseOfKafkaStreams wants both descriptions of each operator to have
// one structure, and those of the controls to have others.
func TestOperatorDescriptionsAreThoseOfKafkaStreams(t *testing.T) {
	t.Parallel()
	operators := allOperators(t)
	names, nodes := slices.Sorted(maps.Keys(operators)), 0
	streams := streamsDescribe(t, names)
	for _, name := range names {
		here, there := buildOperator(t, operators[name].declare).Describe(), streams[name]
		same := structure(t, here) == structure(t, there)
		if same == slices.Contains(otherStructures, name) {
			t.Errorf("%s: one structure: %v; here:\n%sof Kafka Streams:\n%s", name, same, here, there)
		}
		nodes += strings.Count(here, "\n      --> ") + strings.Count(here, "    Sink: ")
	}
	for name, c := range describedControls {
		there, ok := streams[c.operator]
		if !ok {
			t.Fatalf("there is no operator %s", c.operator)
		}
		if here := buildOperator(t, c.declare).Describe(); structure(t, here) == structure(t, there) {
			t.Errorf("%s: it has the structure of\n%s", name, there)
		}
	}
	t.Logf("%d operators, %d nodes", len(names), nodes)
}

// TestOperatorDescriptionsHaveAGrammar: the parser takes no other texts.
func TestOperatorDescriptionsHaveAGrammar(t *testing.T) {
	const good = "Topologies:\n   Sub-topology: 0\n    Source: a (topics: [in])\n      --> b\n" +
		"    Processor: b (stores: [])\n      --> c\n      <-- a\n    Sink: c (topic: out)\n      <-- b\n\n"
	if _, err := parseDescription(good); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string][2]string{
		"another beginning":             {"Topologies:", "Topology:"},
		"a node outside":                {"   Sub-topology: 0\n", ""},
		"a node of another kind":        {"Processor: b", "Table: b"},
		"a source with stores":          {"topics: [in]", "stores: [in]"},
		"topics without brackets":       {"[in]", "in"},
		"an arrow to no node":           {"--> c", "--> d"},
		"an arrow with no other end":    {"      <-- a\n", "      <-- none\n"},
		"an arrow with no beginning":    {"--> b", "--> none"},
		"a node without its arrows":     {"      --> c\n", ""},
		"a sink that goes on":           {"      <-- b\n", "      <-- b\n      --> a\n"},
		"a source that something feeds": {"      --> b\n", "      --> b\n      <-- c\n"},
		"another indentation":           {"      --> b", "     --> b"},
	} {
		bad := strings.Replace(good, change[0], change[1], 1)
		if bad == good {
			t.Fatalf("%s: nothing is changed", what)
		}
		if _, err := parseDescription(bad); err == nil {
			t.Errorf("%s: it is taken:\n%s", what, bad)
		}
	}
}
