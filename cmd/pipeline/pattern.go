package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/onceward/onceward/cmd/internal/yamldoc"
)

// patternOf is a source by pattern.
type patternOf struct {
	name string
	// at is where the file has the expression.
	at yamldoc.Value
	// whole matches the whole name of a topic. It is nil if the expression is wrong.
	whole *regexp.Regexp
}

// patternSource reads a stream of all topics whose names match a pattern.
func (r *reader) patternSource(v yamldoc.Value, m yamldoc.Mapping) source {
	readFormats(m)
	name, pattern, start := m.Optional("name"), m.Optional("pattern"), m.Optional("start")
	if topic := m.Optional("topic"); topic.Present() {
		topic.Mistake("a stream reads one topic, or all topics of a pattern; remove topic, or pattern")
	}
	if start.Present() && start.Text() != "earliest" {
		start.Mistake("a source by pattern reads each topic from its first record; remove start, and leave old records out with a filter")
	}
	s := source{shape: aStream, name: r.name(m), pattern: pattern.Text()}
	if first, taken := r.topics[s.name]; taken {
		name.Mistake("%q is the name of the source in line %d, which is named after its topic; choose another name", s.name, first.Position().Line)
	} else if s.name != "" {
		r.claim(s.name+"-source", name)
	}
	if s.pattern != "" {
		r.patterns = append(r.patterns, patternOf{name: s.name, at: pattern, whole: r.expression(pattern, s.pattern)})
	}
	r.add(place{name: s.name, at: v.Position(), shape: aStream, pattern: s.name})
	return s
}

// expression compiles a pattern.
func (r *reader) expression(v yamldoc.Value, text string) *regexp.Regexp {
	if i := slices.IndexFunc(r.patterns, func(p patternOf) bool { return p.at.Text() == text }); i >= 0 {
		v.Mistake("the pattern is that of the source in line %d; let the steps read that one", r.patterns[i].at.Position().Line)
		return nil
	}
	// Alone first: an expression that is wrong could be right inside of the group.
	_, err := regexp.Compile(text)
	if err == nil {
		var whole *regexp.Regexp
		if whole, err = regexp.Compile(`\A(?:` + text + `)\z`); err == nil {
			return whole
		}
	}
	reason := err.Error()
	if e, ok := errors.AsType[*syntax.Error](err); ok {
		reason = fmt.Sprintf("%s in %q", e.Code, e.Expr)
	}
	v.Mistake("%q is no regular expression: %s; the syntax is that of Go's package regexp", text, reason)
	return nil
}

// otherUse is a name of the file that no pattern may match.
type otherUse struct {
	name string
	at   yamldoc.Value
	// what says what has the name, and then what to do.
	what, then string
}

// checkPatterns notes a mistake for each pattern that matches a name with another use, the first
// one in the file. Patterns are refused that could have the pipeline read what it writes.
func (r *reader) checkPatterns(deadLetters yamldoc.Value) {
	if len(r.patterns) == 0 {
		return
	}
	const narrower = "write a pattern that does not match it"
	uses := []otherUse{
		{deadLetters.Text(), deadLetters, "the topic of dead letters", narrower},
		{r.evidence.Text(), r.evidence, "the topic of evidence", narrower},
	}
	for topic, at := range r.topics {
		uses = append(uses, otherUse{topic, at, "the topic of a source", narrower})
	}
	for _, at := range r.outputs {
		uses = append(uses, otherUse{at.Text(), at, "a topic that a step writes", narrower})
	}
	for name, at := range r.names {
		if step, ok := strings.CutSuffix(name, "-repartition-source"); ok {
			uses = append(uses, otherUse{step, at, "the name of a step with a topic of its own", "rename the step, or " + narrower})
		}
	}
	slices.SortFunc(uses, func(a, b otherUse) int {
		p, q := a.at.Position(), b.at.Position()
		return cmp.Or(cmp.Compare(p.Line, q.Line), cmp.Compare(p.Column, q.Column), cmp.Compare(a.name, b.name))
	})
	for _, p := range r.patterns {
		i := slices.IndexFunc(uses, func(u otherUse) bool { return p.whole != nil && u.name != "" && p.whole.MatchString(u.name) })
		if i >= 0 {
			u := uses[i]
			p.at.Mistake("the pattern matches %q, %s in line %d; %s", u.name, u.what, u.at.Position().Line, u.then)
		}
	}
}

// checkTasks notes a mistake if the tasks of a pattern pass on what the current step reads in a
// place. It is for steps that keep state, and for those that read several places.
func (r *reader) checkTasks(at yamldoc.Value, in *place) {
	if in.pattern == "" {
		return
	}
	at.Mistake("each topic of the pattern %s has tasks of its own; put a step rekey: {key: key, partitions: 6} between", in.pattern)
	r.out.pattern = "" // one mistake is enough
}

// keys are those of a stream in a file, for messages.
func (s source) keys() string {
	if s.pattern != "" {
		return "name: " + s.name + ", pattern: '" + s.pattern + "'"
	}
	return "topic: " + s.topic
}
