package pipeline

import (
	"errors"
	"fmt"
	"strings"

	"github.com/onceward/onceward/cmd/internal/yamldoc"
	"github.com/onceward/onceward/topology"
)

// Mistake is one thing that is wrong with a pipeline.
type Mistake struct {
	// File is the name of the file as it was given.
	File string
	// Line and Column count from 1, columns in characters. They are 0 if the file as a whole is
	// meant.
	Line, Column int
	// Text says what is wrong and what to do, in one line.
	Text string
}

// Error returns file:line:column and the text in one line.
func (m *Mistake) Error() string {
	at := yamldoc.Position{File: m.File, Line: m.Line, Column: m.Column}
	return at.String() + ": " + m.Text
}

// Error is everything that is wrong with a pipeline, in the order of the file. It has at least one
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

// Load returns the topology that a file describes. A mistake in the description is an [*Error]; a
// file that cannot be read is the error of package os, wrapped.
func Load(path string) (*topology.Topology, error) {
	src, err := yamldoc.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the pipeline: %w", err)
	}
	return Parse(path, src)
}

// Parse is [Load] for a text; the name of the file is for mistakes only.
func Parse(file string, src []byte) (*topology.Topology, error) {
	r, err := newReader(yamldoc.Parse(file, src))
	if err != nil {
		return nil, err
	}
	p := r.pipeline()
	if err := r.err(); err != nil {
		return nil, err
	}
	t := p.build(r)
	if err := r.err(); err != nil {
		return nil, err
	}
	return t, nil
}

// err returns what was found wrong so far.
func (r *reader) err() error {
	wrong, ok := errors.AsType[*yamldoc.Error](r.file.Err())
	if !ok {
		return nil
	}
	e := &Error{}
	for _, m := range wrong.Mistakes {
		e.Mistakes = append(e.Mistakes, &Mistake{File: m.File, Line: m.Line, Column: m.Column, Text: m.Text})
	}
	return e
}
