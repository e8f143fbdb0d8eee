//go:build onceward_failpoints && !unix

package instance

import "os"

// stopSignal cannot be sent here, and sending it says so.
var stopSignal os.Signal = os.Interrupt
