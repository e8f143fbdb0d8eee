//go:build !race

package virtual

// RaceDetector says whether the race detector is on: with it tests that have many cases take fewer.
const RaceDetector = false
