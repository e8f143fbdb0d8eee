package graph

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The subjects of a [Difference].
const (
	SubjectSource      = "source"
	SubjectStore       = "store"
	SubjectSink        = "sink topic"
	SubjectNode        = "node"
	SubjectDeadLetters = "dead-letter topic"
	SubjectGlobalTable = "global table"
)

// The attributes of a [Difference].
const (
	// AttributeExistence is that of the subject itself.
	AttributeExistence = ""
	// AttributeFormats are the names of the codecs of a source or a store.
	AttributeFormats = "formats"
	// AttributeLayout is that of a store.
	AttributeLayout = "layout"
	// AttributeChangelog is the topic that a store is restored from.
	AttributeChangelog = "changelog"
	// AttributeRows is where the rows of a store are: OnDisk, InMemory or LostOnRestart.
	AttributeRows = "rows"
	// AttributeTopic is the topic of a global table.
	AttributeTopic = "topic"
	// AttributeTopicFormats are the names of the codecs of that topic.
	AttributeTopicFormats = "topic formats"
	// AttributeSubtopology is the name of the subtopology of a source or a store, which names its
	// tasks.
	AttributeSubtopology = "subtopology"
	// AttributeStart is where a source starts that has no committed offset.
	AttributeStart = "start"
	// AttributePattern is the expression of a source by pattern.
	AttributePattern = "pattern"
	// AttributePartitioner is the partitioner of a source, or of the topic of a sink.
	AttributePartitioner = "partitioner"
	// AttributeWindows are the windows that a node makes.
	AttributeWindows = "windows"
	// AttributeSuppression is how long a node holds changes back.
	AttributeSuppression = "suppression"
	// AttributeGrace is how long the records of a join wait.
	AttributeGrace = "grace"
	// AttributeWiring is what a node is, which stores and global tables it uses, and where it
	// leads.
	AttributeWiring = "wiring"
)

// The values of AttributeRows.
const (
	OnDisk        = "on disk"
	InMemory      = "in memory"
	LostOnRestart = "in memory and lost on restart"
)

// Difference is one thing in which a topology differs from an earlier one.
type Difference struct {
	// Subject is what the difference is about, and Name its name: of a topic that on the cluster.
	Subject string `json:"subject"`
	Name    string `json:"name"`
	// Attribute is what differs.
	Attribute string `json:"attribute,omitempty"`
	// Before is what it was, empty for what is new, and After what it is, empty for what is gone.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// String returns the difference in words, such as "store counts: layout keyvalue becomes
// timestamped".
func (d Difference) String() string {
	s := d.Subject + " " + d.Name
	switch {
	case d.Before == "":
		return s + " is new: " + d.After
	case d.After == "":
		return s + " is gone: " + d.Before
	}
	return fmt.Sprintf("%s: %s %s becomes %s", s, d.Attribute, d.Before, d.After)
}

// Compare returns the differences of after from before, sorted by subject, name and attribute. A
// [Description] does not say what functions do, and has no numbers of partitions. Compare judges
// nothing: the meaning of a difference depends on the data that is stored, which onceward plan
// reads.
func Compare(before, after Description) []Difference {
	was, is := factsOf(before), factsOf(after)
	var differences []Difference
	for _, key := range slices.SortedFunc(maps.Keys(merged(was, is)), factKey.compare) {
		if was[key] != is[key] && !implied(key, was, is) {
			differences = append(differences, Difference{
				Subject: key.subject, Name: key.name, Attribute: key.attribute, Before: was[key], After: is[key],
			})
		}
	}
	return differences
}

// factKey names something that a description says.
type factKey struct{ subject, name, attribute string }

func (k factKey) compare(l factKey) int {
	return cmp.Or(strings.Compare(k.subject, l.subject), strings.Compare(k.name, l.name), strings.Compare(k.attribute, l.attribute))
}

type facts map[factKey]string

func merged(a, b facts) facts {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// implied reports whether a difference follows from another one. A new subject differs in all
// attributes, and a store that is lost on restart has no changelog.
func implied(key factKey, was, is facts) bool {
	switch rows := (factKey{key.subject, key.name, AttributeRows}); {
	case key.attribute == AttributeExistence:
		return false
	case key.attribute == AttributeChangelog && was[rows] != is[rows] && (was[rows] == LostOnRestart || is[rows] == LostOnRestart):
		return true
	}
	whole := factKey{key.subject, key.name, AttributeExistence}
	return was[whole] == "" || is[whole] == ""
}

// factsOf returns the facts in a description. That of existence is a short text, equal for equal
// kinds.
func factsOf(d Description) facts {
	f := facts{}
	if d.DeadLetterTopic != "" {
		f[factKey{SubjectDeadLetters, d.DeadLetterTopic, AttributeExistence}] = "a topic"
	}
	for _, sub := range d.Subtopologies {
		for _, s := range sub.Sources {
			kind := "a topic"
			if s.Repartition {
				kind = "a repartition topic"
			}
			name := s.Topic
			if s.Pattern != "" { // its subtopology has the name of the source
				name, kind = sub.Name, "the topics of a pattern"
				f[factKey{SubjectSource, name, AttributePattern}] = s.Pattern
			}
			f[factKey{SubjectSource, name, AttributeExistence}] = kind
			f[factKey{SubjectSource, name, AttributeFormats}] = codecNames(s.KeyFormat, s.ValueFormat)
			f[factKey{SubjectSource, name, AttributeSubtopology}] = sub.Name
			f[factKey{SubjectSource, name, AttributeStart}] = s.Start
			f[factKey{SubjectSource, name, AttributePartitioner}] = cmp.Or(s.Partitioner, byKey)
		}
		for _, s := range sub.Stores {
			f[factKey{SubjectStore, s.Name, AttributeExistence}] = "a store"
			f[factKey{SubjectStore, s.Name, AttributeFormats}] = codecNames(s.KeyFormat, s.ValueFormat)
			f[factKey{SubjectStore, s.Name, AttributeLayout}] = s.Layout
			f[factKey{SubjectStore, s.Name, AttributeChangelog}] = cmp.Or(s.ChangelogTopic, s.RestoredFrom)
			f[factKey{SubjectStore, s.Name, AttributeRows}] = s.rows()
			f[factKey{SubjectStore, s.Name, AttributeSubtopology}] = sub.Name
		}
		for _, topic := range sub.Sinks {
			f[factKey{SubjectSink, topic, AttributeExistence}] = "a topic"
		}
		for _, n := range sub.Nodes {
			f[factKey{SubjectNode, n.Name, AttributeExistence}] = "a " + n.Kind
			f[factKey{SubjectNode, n.Name, AttributeWiring}] = n.wiring()
			f[factKey{SubjectNode, n.Name, AttributeWindows}] = cmp.Or(n.Windows, "none")
			f[factKey{SubjectNode, n.Name, AttributeSuppression}] = cmp.Or(n.Suppression, "none")
			f[factKey{SubjectNode, n.Name, AttributeGrace}] = cmp.Or(n.Grace, "none")
			if n.Kind == SinkKind {
				f[factKey{SubjectNode, n.Name, AttributeFormats}] = codecNames(n.KeyFormat, n.ValueFormat)
				f[factKey{SubjectNode, n.Name, AttributePartitioner}] = cmp.Or(n.Partitioner, byKey)
			}
		}
	}
	for _, t := range d.GlobalTables {
		f[factKey{SubjectGlobalTable, t.Store, AttributeExistence}] = "a global table"
		f[factKey{SubjectGlobalTable, t.Store, AttributeTopic}] = t.Topic
		f[factKey{SubjectGlobalTable, t.Store, AttributeLayout}] = t.Layout
		f[factKey{SubjectGlobalTable, t.Store, AttributeFormats}] = codecNames(t.KeyFormat, t.ValueFormat)
		f[factKey{SubjectGlobalTable, t.Store, AttributeTopicFormats}] = codecNames(t.TopicKeyFormat, t.TopicValueFormat)
	}
	return f
}

// rows is where the rows of a store are.
func (s StoreDescription) rows() string {
	switch {
	case s.LostOnRestart:
		return LostOnRestart
	case s.InMemory:
		return InMemory
	}
	return OnDisk
}

// byKey is the text for Kafka's default partitioner.
const byKey = "that of Kafka"

// codecNames is the text for the codecs of a topic or a store.
func codecNames(key, value string) string { return "(" + key + ", " + value + ")" }

// wiring is a node in one line.
func (n NodeDescription) wiring() string {
	s := n.Kind
	if of := cmp.Or(n.Topic, n.Pattern); of != "" {
		s += " of " + of
	}
	if len(n.Stores) > 0 {
		s += " with " + strings.Join(n.Stores, ", ")
	}
	if len(n.GlobalTables) > 0 {
		s += " looking into " + strings.Join(n.GlobalTables, ", ")
	}
	for i, e := range n.Next {
		if i == 0 {
			s += " to "
		} else {
			s += ", "
		}
		if e.Outlet != "" {
			s += e.Outlet + " "
		}
		s += e.To
	}
	return s
}
