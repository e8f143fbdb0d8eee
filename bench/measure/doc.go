// Package measure is what the comparing measurements share: their main function, child processes
// that report in lines of JSON, with their memory and processor time, and the spread of repeated
// values.
//
// A measured program is a process of its own, so that its memory is its own, a kill is a kill, and
// nothing is warm from before. It writes reports to its standard output and ends when its standard
// input does; so it does not outlive the measurement, however that ends. One that works until it is
// told to end, and is started again and again, is an [Instance].
//
// A [Process] and an [Instance] belong to one goroutine, but another one may wait for the reports
// of a Process.
package measure
