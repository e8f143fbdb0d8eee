//go:build !unix

package instance

import "os"

// The signals that freeze a process, and end that, cannot be sent here, and sending them says so.
var stopSignal, continueSignal os.Signal = os.Interrupt, os.Interrupt
