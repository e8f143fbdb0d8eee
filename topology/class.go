package topology

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A Class says what kind of failure an error is. The set is closed, because every class has a reaction of
// its own: see [Policy] for the defaults. The zero Class is no class.
type Class uint8

// The classes.
const (
	// Transient: the same record may succeed a moment later.
	Transient Class = iota + 1
	// Overload: something asks for less work; the record may succeed after a longer pause.
	Overload
	// Conflict: the record contradicts what is already recorded, such as one id with two payloads.
	Conflict
	// Validation: the record was read but breaks a rule, such as a missing id.
	Validation
	// Poison: the record cannot be read, or it makes the code fail. Errors without a class are Poison.
	Poison
	// Config: the program, its configuration or its permissions are wrong; other records would fail as well.
	Config
	// Corruption: stored data is not what was written.
	Corruption
	// Fatal: going on is not safe.
	Fatal
)

const classes = int(Fatal) + 1

var classNames = [classes]string{
	Transient:  "transient",
	Overload:   "overload",
	Conflict:   "conflict",
	Validation: "validation",
	Poison:     "poison",
	Config:     "config",
	Corruption: "corruption",
	Fatal:      "fatal",
}

// String returns the class in lower case, as it stands in headers, metrics and configuration.
func (c Class) String() string {
	if !c.valid() {
		return "class(" + strconv.Itoa(int(c)) + ")"
	}
	return classNames[c]
}

func (c Class) valid() bool { return c >= Transient && c <= Fatal }

// ParseClass returns the class that String spells as s.
func ParseClass(s string) (Class, error) {
	for c := Transient; c <= Fatal; c++ {
		if classNames[c] == s {
			return c, nil
		}
	}
	return 0, fmt.Errorf("topology: %q is no error class; the classes are %s", s,
		strings.Join(classNames[Transient:], ", "))
}

// Fail returns err with a class. It returns nil if err is nil, and Poison is used in place of an invalid
// class.
//
// The text of err is shown in logs at most: a dead letter carries it only if its author vouches that it
// quotes nothing of the record, by making it with [schemas.Reason]:
//
//	return topology.Fail(topology.Validation, schemas.Reason("event id is missing"))
func Fail(class Class, err error) error {
	if err == nil {
		return nil
	}
	if !class.valid() {
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

// ClassOf returns the class that [Fail] gave to err or to an error that err wraps, the outermost first. An
// error without a class is Poison: code that fails on a record without saying why will fail on it again.
// ClassOf(nil) is zero.
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
