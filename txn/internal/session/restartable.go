package session

import (
	"errors"
	"slices"
	"strings"

	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/worker"
)

// Restartable says that the remedy is to close everything and to open it again from the log. It is
// not the remedy if data and log contradict each other, or if another process has our place, even
// if there are other errors. Two workers can fail together, and a failure can follow a broken
// invariant.
func Restartable(err error) bool {
	return !errors.Is(err, ErrIntegrity) && !errors.Is(err, errTwin) &&
		(errors.Is(err, worker.ErrReopen) || errors.Is(err, assign.ErrMemberChanged) || errors.Is(err, errGroupSession))
}

// Wanted says that an operator's request, or a new topic of a pattern, has ended the membership,
// and nothing else.
func Wanted(err error) bool {
	return !slices.ContainsFunc(parts(err), func(one error) bool {
		return !errors.Is(one, errMatched) && !errors.Is(one, errRebuilt) && !errors.Is(one, errResumed)
	})
}

// OnlyRestartable is Restartable for every part of err: nothing else went wrong beside it.
func OnlyRestartable(err error) bool {
	return !slices.ContainsFunc(parts(err), func(one error) bool { return !Restartable(one) })
}

// parts takes errors.Join apart, which says what its parts say, a line each; an error that wraps
// several causes is one part.
func parts(err error) []error {
	var inner []error
	switch e := err.(type) { //nolint:errorlint // it is about this error and not about what it wraps
	case interface{ Unwrap() []error }:
		inner = e.Unwrap()
	case interface{ Unwrap() error }:
		if one := e.Unwrap(); one != nil {
			if several := parts(one); len(several) > 1 {
				return several
			}
		}
	}
	var lines []string
	for _, one := range inner {
		lines = append(lines, one.Error())
	}
	if len(inner) == 0 || err.Error() != strings.Join(lines, "\n") {
		return []error{err}
	}
	var out []error
	for _, one := range inner {
		out = append(out, parts(one)...)
	}
	return out
}
