// Package process starts, freezes, kills and stops the applications of e2e/clients, each instance as a process of its own, and reads
// what they print (package client says what that is). Scenarios use it; the applications do not.
package process
