package throughput

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"runtime/trace"
	"time"
)

// traceFor is how much of the steady state an execution trace holds. A second of it has tens of
// megabytes.
const traceFor = time.Second

// Profiles are files for profiles of the steady state; empty ones are left out.
type Profiles struct {
	// CPU has all of the steady state, Memory what was allocated from the start on and what is left
	// at the end, Trace the first second of the steady state.
	CPU, Memory, Trace string
}

// profiles are the files while they are open. begin and close belong to one goroutine.
type profiles struct {
	cpu, memory, trace *os.File
	timer              *time.Timer
	began              bool
	failed             error
}

func (p Profiles) open() (*profiles, error) {
	var out profiles
	for _, f := range []struct {
		name string
		file **os.File
	}{{p.CPU, &out.cpu}, {p.Memory, &out.memory}, {p.Trace, &out.trace}} {
		if f.name == "" {
			continue
		}
		file, err := os.Create(f.name)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%w: %w", ErrUnusable, err), out.close())
		}
		*f.file = file
	}
	return &out, nil
}

// begin begins the profiles of the steady state. What goes wrong is told by close.
func (p *profiles) begin() {
	p.began = true
	if p.cpu != nil {
		p.failed = pprof.StartCPUProfile(p.cpu)
	}
	if p.trace != nil {
		if err := trace.Start(p.trace); err != nil {
			p.failed = errors.Join(p.failed, err)
			return
		}
		p.timer = time.AfterFunc(traceFor, trace.Stop)
	}
}

// close ends the profiles and closes the files.
func (p *profiles) close() error {
	err := p.failed
	if p.began && p.cpu != nil {
		pprof.StopCPUProfile()
	}
	if p.timer != nil {
		p.timer.Stop()
		trace.Stop() // waits for that of the timer, if it has begun
	}
	if p.began && p.memory != nil {
		err = errors.Join(err, pprof.Lookup("heap").WriteTo(p.memory, 0))
	}
	for _, f := range []*os.File{p.cpu, p.memory, p.trace} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}
