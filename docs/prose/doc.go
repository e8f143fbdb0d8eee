// Command prose checks the language of documents, Go comments and messages against the rules of
// CONTRIBUTING. It fails if a file has more findings of a rule than the baseline allows.
//
//	go run ./docs/prose            compare every file with the baseline
//	go run ./docs/prose FILE ...   print every finding and warning of these files too
//	go run ./docs/prose -lower     lower the baseline to what is left
//
// # How it works
//
// The linter is Vale, built from its Go module. The configuration is .vale.ini, the rules are in
// styles/Onceward. Vale reads Markdown, so the command writes a Markdown file for each Go file. It
// contains the comments and the strings that are sentences: errors, log messages and help texts.
// Strings of tests are left out. Of the Makefile it takes comments and help texts. A finding is
// reported at its line in the source file.
//
// # Baseline
//
// baseline.txt has the number of errors per file and rule. The check fails if a number rises, and
// says so if one has fallen. -lower never raises a number or adds a line. After a file was renamed,
// its lines in baseline.txt need the new path.
//
// Warnings, such as a sentence of 26 to 35 words, never fail the check.
//
// # Requirements
//
// The first run compiles Vale and keeps it in the user's cache. That takes minutes, a C compiler,
// and the Go module proxy. Later runs work offline. The check does not use Git.
package main
