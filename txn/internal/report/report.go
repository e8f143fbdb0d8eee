package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	neturl "net/url"
	"time"

	"github.com/onceward/onceward/txn/internal/metrics"
)

// Report is what an instance says of itself. It has names of topics, tasks and nodes, and reasons
// of failures, which quote no record.
type Report struct {
	// Status is the status of the process. Fetch decodes into the value that it points to.
	Status any `json:"status"`
	// NotReady says why the process does not do its share; empty if it does.
	NotReady []string `json:"not_ready"`
	// Counts are its counters. They began with zero at Started, which names the process among those
	// of the instance.
	Counts  metrics.Counts `json:"counts"`
	Started time.Time      `json:"started"`
}

// reportMax is the most bytes of a report that are read.
const reportMax = 8 << 20

// Handler answers every request with the report. of is called for each.
func Handler(of func() Report) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(of()) // the only way to fail is a client that has gone away
	})
}

// Fetch reads a report. Its status is decoded into what status points to.
func Fetch(ctx context.Context, client *http.Client, url string, status any) (Report, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Report{}, err
	}
	resp, err := client.Do(req)
	if err != nil {
		if named, ok := errors.AsType[*neturl.Error](err); ok {
			err = named.Err // the URL says nothing to a person
		}
		return Report{}, err
	}
	defer func() { _ = resp.Body.Close() }() // nothing more is read
	if resp.StatusCode != http.StatusOK {
		return Report{}, fmt.Errorf("it answers %s: its build is older than the console of all instances, or is stopping", resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, reportMax+1))
	if err != nil {
		return Report{}, err
	}
	if len(text) > reportMax {
		return Report{}, fmt.Errorf("its report has more than %d bytes", reportMax)
	}
	out := Report{Status: status}
	if err := json.Unmarshal(text, &out); err != nil {
		return Report{}, errors.New("its report cannot be read by this build: " + err.Error())
	}
	if out.Status != status {
		return Report{}, errors.New("its report has no status")
	}
	return out, nil
}
