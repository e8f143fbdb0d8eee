// Package soak runs an application of several instances on its own real Kafka. A seeded nemesis
// kills, freezes, stops and adds instances and restarts the broker. The package records everything
// that happened, and package check judges the record.
//
//	make soak MINUTES=60
//
// runs TestSoak for an hour under faults. TestShortSoakFindsNothing is the same for half a minute.
// TestBroken is the negative control (.ci/negative-soak): it breaks one mechanism at a time, and
// the judge has to find what is broken.
//
// # A run
//
// A feeder produces inputs at a steady rate: some messages are delivered again, a few inputs are
// poison. Two readers follow all topics from the first moment on: a read_committed one, and one
// that reads the log itself with its markers and with __consumer_offsets. After the given time the
// nemesis heals what it did, the feeder stops, and the application works off what is left (it
// quiesces). Then the instances stop in order, a third reader reads the outputs from the start, the
// databases are read from the disks, and the history is judged. Databases are also read after some
// of the kills, and the application's own queries are part of the history.
//
// The seed decides about the feeder's records and about the order, the kinds and the times of the
// faults. It does not make a run repeatable: the machine decides what meets what.
//
// # Processes
//
// Instances are processes of their own, so that SIGKILL and SIGSTOP are what they are anywhere
// else: package testapp has them and their program. They end when the test process does.
//
// The nemesis of package simulation is another one. It acts on virtual time in one goroutine, on
// hosts and brokers of package virtual, and has faults that processes on a real network cannot be
// given. This one waits for real processes, several at a time, and takes the broker down only when
// no transaction is open. They share no code.
//
// # What it is not
//
// It does not measure speed: the load is what a small machine bears beside the broker and all
// readers.
package soak
