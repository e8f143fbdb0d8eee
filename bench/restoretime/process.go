package restoretime

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/onceward/onceward/bench/measure"
)

// Part is the restore of one changelog partition by Kafka Streams, and of one task by Onceward: its
// two changelog partitions.
type Part struct {
	Store     string `json:"store,omitempty"`
	Partition int32  `json:"partition"`
	// From and To count from the first begin of a restore in the process.
	From    time.Duration `json:"from_ns"`
	To      time.Duration `json:"to_ns"`
	Records int64         `json:"records"`
}

// Restore is what one process has done.
type Restore struct {
	Records int64 `json:"records"`
	// Took is from the first begin of a restore to the last end of one, Wall from the start of the
	// process until everything runs.
	Took time.Duration `json:"took_ns"`
	Wall time.Duration `json:"wall_ns"`
	// Rate is records per second of Took.
	Rate float64 `json:"records_per_second"`
	// PeakRSS is in bytes, at the moment when everything runs; 0 where there is no VmHWM.
	PeakRSS int64 `json:"peak_rss_bytes"`
	// CPU is the processor time of the process until its end.
	CPU   time.Duration `json:"cpu_ns"`
	Parts []Part        `json:"parts,omitempty"`
}

// report is the line that a process writes once everything runs.
type report struct {
	Parts    []Part        `json:"parts"`
	Contents []storeReport `json:"contents"`
}

// storeReport is what a process has found in a store. The digest is hexadecimal.
type storeReport struct {
	Store   string `json:"store"`
	Entries int64  `json:"entries"`
	Digest  string `json:"digest"`
}

// runRestore starts the command, waits for its report, reads its memory, and ends it. Its log goes
// to the file log. The restore has to be one of that many records.
func runRestore(ctx context.Context, cmd *exec.Cmd, log string, records int64) (Restore, report, error) {
	p, err := measure.Start(cmd, log)
	if err != nil {
		return Restore{}, report{}, err
	}
	var rep report
	err = p.Report(&rep)
	r := Restore{Wall: time.Since(p.Started), Parts: rep.Parts}
	if err == nil {
		r.PeakRSS, err = p.PeakRSS()
	}
	if err := errors.Join(err, p.End(), context.Cause(ctx)); err != nil {
		return Restore{}, report{}, err
	}
	r.CPU = p.CPU()
	for _, part := range rep.Parts {
		r.Records += part.Records
		r.Took = max(r.Took, part.To)
	}
	if r.Records != records {
		return Restore{}, report{}, fmt.Errorf("%w: %d of %d", errRecords, r.Records, records)
	}
	r.Rate = float64(r.Records) / r.Took.Seconds()
	return r, rep, nil
}

var errRecords = errors.New("another number of records was restored than were written")
