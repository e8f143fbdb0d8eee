package hanging

import (
	"errors"
	"slices"

	"github.com/onceward/onceward/txn/internal/broker"
)

// OnlyDenied reports whether every part of an error is a missing permission: topics that may not be
// read.
func OnlyDenied(err error) bool { return only(err, denied) }

// OnlyAbsent is OnlyDenied, and true too if the cluster does not know topics: they were deleted, or
// a broker has not heard of them.
func OnlyAbsent(err error) bool {
	return only(err, func(e error) bool { return denied(e) || broker.NotYetKnown(e) })
}

func denied(err error) bool {
	_, is := errors.AsType[*broker.PermissionError](err)
	return is
}

func only(err error, is func(error) bool) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(e error) bool { return !only(e, is) })
	}
	return is(err)
}

// DeniedTopics returns the topics that may not be read, by the parts of an error.
func DeniedTopics(err error) (topics []string) {
	switch e := err.(type) { //nolint:errorlint // each part is looked at
	case *broker.PermissionError:
		for _, p := range e.Missing {
			if p.Resource == broker.TopicResource {
				topics = append(topics, p.Name)
			}
		}
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			topics = append(topics, DeniedTopics(part)...)
		}
	case interface{ Unwrap() error }:
		return DeniedTopics(e.Unwrap())
	}
	return topics
}
