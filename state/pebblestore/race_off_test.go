//go:build !race

package pebblestore

// RaceDetector says that tests run about ten times slower (Pebble checks its invariants as well
// then).
const RaceDetector = false
