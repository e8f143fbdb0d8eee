package topology

import "github.com/onceward/onceward/topology/graph"

// These types are a part of the contract between a topology and its runtime, and of what users
// write. They are defined in package graph. Here they have the same names, so that a program needs
// only this package.

// Header is a record header. Keys may repeat; order is kept.
type Header = graph.Header

// Failure is why a record failed: see [Context.Try].
type Failure = graph.Failure

// A Class says what kind of failure an error is. The set is closed, because every class has a
// reaction of its own: see [Policy] for the defaults. The zero Class is no class.
type Class = graph.Class

// The classes.
const (
	// Transient: the same record may succeed a moment later.
	Transient = graph.Transient
	// Overload: something asks for less work; the record may succeed after a longer pause.
	Overload = graph.Overload
	// Conflict: the record contradicts what is already recorded, such as one id with two payloads.
	Conflict = graph.Conflict
	// Validation: the record was read but breaks a rule, such as a missing id.
	Validation = graph.Validation
	// Poison: the record cannot be read, or it makes the code fail. Errors without a class are
	// Poison.
	Poison = graph.Poison
	// Config: the program, its configuration or its permissions are wrong; other records would fail
	// as well.
	Config = graph.Config
	// Corruption: stored data is not what was written.
	Corruption = graph.Corruption
	// Fatal: going on is not safe.
	Fatal = graph.Fatal
)

// Action is what becomes of a record that failed: see [Policy].
type Action = graph.Action

// The actions of a [Policy].
const (
	// DeadLetter: the record goes to the dead-letter topic.
	DeadLetter = graph.DeadLetter
	// Retry: the record is tried again in its place.
	Retry = graph.Retry
	// Stop: the task stops and says why.
	Stop = graph.Stop
	// Park: the record waits in a store, and with it the later records of its key.
	Park = graph.Park
	// Delay: the record goes through a retry topic.
	Delay = graph.Delay
)
