package topology

import "errors"

// Fail returns err with a class. It returns nil if err is nil, and Poison is used in place of an
// invalid class.
//
// The text of err is shown in logs at most: a dead letter carries it only if its author vouches
// that it quotes nothing of the record, by making it with [schemas.Reason]:
//
//	return topology.Fail(topology.Validation, schemas.Reason("event id is missing"))
func Fail(class Class, err error) error {
	if err == nil {
		return nil
	}
	if !class.Valid() {
		class = Poison
	}
	return &classifiedError{class: class, err: err}
}

type classifiedError struct {
	class Class
	err   error
}

func (e *classifiedError) Error() string { return e.class.String() + ": " + e.err.Error() }
func (e *classifiedError) Unwrap() error { return e.err }

// ClassOf returns the class that [Fail] gave to err or to an error that err wraps, the outermost
// first. An error without a class is Poison: code that fails on a record without saying why will
// fail on it again. ClassOf(nil) is zero.
func ClassOf(err error) Class {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*classifiedError](err); ok {
		return e.class
	}
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.Class
	}
	return Poison
}
