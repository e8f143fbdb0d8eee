package yamldoc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Position is a place in a file. Lines and columns count from 1; columns count characters.
type Position struct {
	File         string
	Line, Column int
}

// String returns file:line:column, or the file alone if the place is the file as a whole.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Mistake is one thing that is wrong with a file.
type Mistake struct {
	Position
	// Text says what is wrong and what to do, in one line.
	Text string
}

// Error returns the place and the text in one line.
func (m *Mistake) Error() string { return m.Position.String() + ": " + m.Text }

// Error is everything that is wrong with a file, in the order of the places. It has at least one
// mistake.
type Error struct{ Mistakes []*Mistake }

// Error returns the mistakes, one a line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Mistakes))
	for i, m := range e.Mistakes {
		lines[i] = m.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the mistakes.
func (e *Error) Unwrap() []error {
	errs := make([]error, len(e.Mistakes))
	for i, m := range e.Mistakes {
		errs[i] = m
	}
	return errs
}

// Err returns what was found wrong so far as an [*Error], or nil.
func (f *File) Err() error {
	if len(f.mistakes) == 0 {
		return nil
	}
	mistakes := slices.Clone(f.mistakes)
	slices.SortStableFunc(mistakes, func(a, b *Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &Error{Mistakes: mistakes}
}

// Mistake notes that something is wrong at p.
func (f *File) Mistake(p Position, format string, args ...any) {
	f.mistakes = append(f.mistakes, &Mistake{Position: p, Text: fmt.Sprintf(format, args...)})
}
