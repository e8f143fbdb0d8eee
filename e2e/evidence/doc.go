// Package evidence runs the command on a real broker: a pipeline writes down what it decides, and onceward explain is asked why a row is as
// it is. What the embedded broker has no part in is tested here: the time of the broker.
package evidence
