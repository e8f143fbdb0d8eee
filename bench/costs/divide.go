package costs

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// Share is what a step costs.
type Share struct {
	Step  Step
	Nanos int64
}

// Divide divides a CPU profile among [Steps], whose order it keeps. The error says what is wrong
// with the profile.
func Divide(r io.Reader) ([]Share, error) {
	p, err := profile.Parse(r)
	if err != nil {
		return nil, fmt.Errorf("dividing a profile: %w", err)
	}
	value := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == "cpu" && t.Unit == "nanoseconds" })
	if value < 0 {
		return nil, fmt.Errorf("dividing a profile: it has no processor time; onceward-bench run --cpuprofile makes one")
	}
	shares := make([]Share, len(Steps))
	for i, s := range Steps {
		shares[i].Step = s
	}
	for _, sample := range p.Sample {
		shares[stepOf(stackOf(sample))].Nanos += sample.Value[value]
	}
	return shares, nil
}

// stackOf returns the functions of a sample, the innermost first.
func stackOf(s *profile.Sample) (functions []string) {
	for _, location := range s.Location {
		for _, line := range location.Line {
			if line.Function != nil {
				functions = append(functions, plain(line.Function.Name))
			}
		}
	}
	return functions
}

// stepOf returns the index of a stack's step.
func stepOf(stack []string) int {
	if slices.ContainsFunc(stack, func(f string) bool { return begins(f, Steps[0].within) }) {
		return 0 // also where an allocation has to help
	}
	if read := slices.IndexFunc(stack, func(f string) bool { return begins(f, reads) }); read >= 0 {
		for _, f := range stack[read:] {
			if i := slices.IndexFunc(Steps, func(s Step) bool { return s.reader != "" && strings.HasPrefix(f, s.reader) }); i >= 0 {
				return i
			}
		}
	}
	for _, of := range []func(s Step) []string{func(s Step) []string { return s.within }, func(s Step) []string { return s.otherwise }} {
		for _, f := range stack {
			if i := slices.IndexFunc(Steps, func(s Step) bool { return begins(f, of(s)) }); i >= 0 {
				return i
			}
		}
	}
	return len(Steps) - 1
}
