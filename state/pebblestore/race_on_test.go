//go:build race

package pebblestore_test

// raceDetector says that tests run about ten times slower (Pebble checks its invariants as well then).
const raceDetector = true
