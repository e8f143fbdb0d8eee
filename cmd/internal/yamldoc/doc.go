// Package yamldoc reads the YAML files that people write for the command: pipelines and
// configuration.
//
// Nothing unexpected passes. Unknown and repeated keys, wrong types, empty values and everything of
// YAML that a small file does not need (anchors, aliases, tags, merge keys, several documents) are
// mistakes. A [Mistake] is one line: file, line and column, what is wrong there, and what to do.
// Reading goes on behind a mistake, so that one run shows all of them.
//
// The caller asks for what it knows, and the answers are zero where something is wrong; [File.Err]
// tells in the end:
//
//	f := yamldoc.Parse("pipeline.yaml", text)
//	root := f.Root().Mapping("name", "steps")
//	name := root.Required("name").Text()
//	if err := f.Err(); err != nil { ... }
//
// A decoder into structs, the other way to do it, reports the first mistake only, prints several
// lines of the file with it, and loses the places that later checks need.
//
// A [File] and its values belong to one goroutine.
package yamldoc
