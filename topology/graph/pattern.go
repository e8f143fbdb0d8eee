package graph

// Pattern is a source that reads all topics whose names match a regular expression: see
// topology.FromPattern.
type Pattern struct {
	// Name is the name of the source, as the user gave it.
	Name string
	// Expression has to match the whole name of a topic, in the syntax of package regexp.
	Expression string
	// Prefix is the text with which every name begins that matches. It may be empty.
	Prefix string
	// KeyFormat and ValueFormat are the names of the codecs.
	KeyFormat, ValueFormat string
}
