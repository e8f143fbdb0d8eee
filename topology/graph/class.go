package graph

import (
	"fmt"
	"strconv"
	"strings"
)

// A Class says what kind of failure an error is. The set is closed, because each class has a
// reaction of its own. The defaults are at topology.Policy. The zero Class is not a class.
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
	// Poison: the record cannot be read, or it makes the code fail. Errors without a class are
	// Poison.
	Poison
	// Config: the program, its configuration or its permissions are wrong; other records would fail
	// as well.
	Config
	// Corruption: stored data is not what was written.
	Corruption
	// Fatal: going on is not safe.
	Fatal
)

var classNames = [...]string{
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
	if !c.Valid() {
		return "class(" + strconv.Itoa(int(c)) + ")"
	}
	return classNames[c]
}

// Valid reports whether c is one of the classes.
func (c Class) Valid() bool { return c >= Transient && c <= Fatal }

// ParseClass returns the class that String spells as s.
func ParseClass(s string) (Class, error) {
	for c := Transient; c <= Fatal; c++ {
		if classNames[c] == s {
			return c, nil
		}
	}
	return 0, fmt.Errorf("%q is no error class; the classes are %s", s,
		strings.Join(classNames[Transient:], ", "))
}
