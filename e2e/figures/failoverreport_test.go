package figures

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/bench/latency"
	"github.com/onceward/onceward/bench/measure"
)

// failoverFailure is one failure of an instance. All times but Readers and Others count from it.
type failoverFailure struct {
	// Readers is the longest time in which a partition of the output showed nothing. Every instance
	// writes to every one of them.
	Readers time.Duration `json:"readers_ns"`
	// All is until each partition of the input has an output of an event that was due after the
	// failure.
	All time.Duration `json:"all_ns"`
	// Others is the longest pause of a partition that another instance had.
	Others time.Duration `json:"others_ns"`
	// Suspected, Fencing and Fenced are until the first log line that says so; zero without one.
	Suspected time.Duration `json:"suspected_ns"`
	Fencing   time.Duration `json:"fencing_ns"`
	Fenced    time.Duration `json:"fenced_ns"`
	// Assigned is until the other instances have all tasks, and Running until they run all of them.
	// Both are as fine as the status is asked for, 20 ms.
	Assigned time.Duration `json:"assigned_ns"`
	Running  time.Duration `json:"running_ns"`
	// Restored is how many changelog records were replayed, and Events how many events had been
	// sent before.
	Restored int64  `json:"restored"`
	Events   uint64 `json:"events"`
	Load     string `json:"load"`
}

func (k failoverFailure) String() string {
	return fmt.Sprintf("readers see nothing for %s, all partitions go on after %s, others paused %s; suspected %s, fencing %s, fenced %s, assigned %s, "+
		"running %s; %d records restored, %d events before, load %s", round(k.Readers), round(k.All), round(k.Others), round(k.Suspected),
		round(k.Fencing), round(k.Fenced), round(k.Assigned), round(k.Running), k.Restored, k.Events, k.Load)
}

// targets are zero where there are none.
type targets struct {
	LeastReaders time.Duration `json:"readers_at_least_ns,omitempty"`
	AimReaders   time.Duration `json:"readers_aim_ns,omitempty"`
	LeastAll     time.Duration `json:"all_at_least_ns,omitempty"`
	AimAll       time.Duration `json:"all_aim_ns,omitempty"`
}

// failoverResult is all failures of a kind.
type failoverResult struct {
	Name    string    `json:"name"`
	About   string    `json:"about"`
	Host    string    `json:"host"`
	Time    time.Time `json:"time"`
	Rate    int       `json:"events_per_second"`
	State   int       `json:"state_events"`
	Targets targets   `json:"targets"`
	// Events is how many there were. Each of them was looked for.
	Events uint64 `json:"events"`
	latency.Anomalies
	Failures []failoverFailure `json:"failures"`
}

// of returns the distribution of a figure. Failures without it are left out; there is none if all
// are.
func (r failoverResult) of(figure func(failoverFailure) time.Duration) (s latency.Summary, ok bool) {
	var ds []time.Duration
	for _, k := range r.Failures {
		if d := figure(k); d > 0 {
			ds = append(ds, d)
		}
	}
	if len(ds) == 0 {
		return s, false
	}
	slices.Sort(ds)
	return latency.Summarize(ds), true
}

// failoverReport is the results of several kinds.
type failoverReport []failoverResult

const failoverName = "failover"

// failoversIn reads the report that a directory has; an empty one if it has none.
func failoversIn(dir string) (r failoverReport, err error) {
	text, err := os.ReadFile(filepath.Join(dir, failoverName+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err
}

// with puts a result in the place of the earlier one of its kind. The order is that of the table.
func (r failoverReport) with(one failoverResult) failoverReport {
	r = append(slices.DeleteFunc(slices.Clone(r), func(earlier failoverResult) bool { return earlier.Name == one.Name }), one)
	place := func(of failoverResult) int {
		return slices.IndexFunc(failures, func(f failure) bool { return f.name == of.Name })
	}
	slices.SortFunc(r, func(a, b failoverResult) int { return place(a) - place(b) })
	return r
}

func (r failoverReport) write(dir string) error {
	return measure.Write(dir, failoverName, r.markdown(), r)
}

// markdown is the report for people.
func (r failoverReport) markdown() string {
	var b strings.Builder
	b.WriteString("# Failover\n\nAn instance fails under steady load of the workload ledger. Brokers and timeouts are at their defaults. Seconds.\n\n" +
		"Readers: the longest time in which a read_committed reader sees nothing in one of the partitions of the output, which all instances share. " +
		"All partitions: until each partition of the input has an output of an event that was sent after the failure. " +
		"Others: the longest pause of a partition that did not lose its instance.\n\n" +
		"| scenario | failures | figure | min | p50 | p90 | max | at least | aim |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, of := range r {
		for _, figure := range []struct {
			name       string
			of         func(failoverFailure) time.Duration
			least, aim time.Duration
		}{
			{"readers", func(k failoverFailure) time.Duration { return k.Readers }, of.Targets.LeastReaders, of.Targets.AimReaders},
			{"all partitions", func(k failoverFailure) time.Duration { return k.All }, of.Targets.LeastAll, of.Targets.AimAll},
			{"others", func(k failoverFailure) time.Duration { return k.Others }, 0, 0},
		} {
			if s, ok := of.of(figure.of); ok {
				fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s | %s | %s | %s |\n", of.About, len(of.Failures), figure.name, seconds(s.Min), seconds(s.P50),
					seconds(s.P90), seconds(s.Max), seconds(figure.least), seconds(figure.aim))
			}
		}
	}
	b.WriteString("\nWhere the time goes: medians, from the failure.\n\n" +
		"| scenario | suspected | fencing | fenced | assigned | running | all partitions | records restored |\n|---|---|---|---|---|---|---|---|\n")
	for _, of := range r {
		fmt.Fprintf(&b, "| %s |", of.About)
		for _, figure := range []func(failoverFailure) time.Duration{
			func(k failoverFailure) time.Duration { return k.Suspected }, func(k failoverFailure) time.Duration { return k.Fencing },
			func(k failoverFailure) time.Duration { return k.Fenced }, func(k failoverFailure) time.Duration { return k.Assigned },
			func(k failoverFailure) time.Duration { return k.Running }, func(k failoverFailure) time.Duration { return k.All },
		} {
			s, _ := of.of(figure)
			fmt.Fprintf(&b, " %s |", seconds(s.P50))
		}
		var restored []int64
		for _, k := range of.Failures {
			restored = append(restored, k.Restored)
		}
		slices.Sort(restored)
		fmt.Fprintf(&b, " %d |\n", restored[len(restored)/2])
	}
	b.WriteString("\nExactly once: every event was looked for in the output, and every count and balance compared.\n\n" +
		"| scenario | events/s | state before, events | events | lost | doubled | wrong sums | measured | load before |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, of := range r {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d | %s, %s | %s |\n", of.About, of.Rate, of.State, of.Events, of.Lost, of.Doubled, of.Wrong,
			of.Time.Format(time.DateOnly), of.Host, of.Failures[0].Load)
	}
	return b.String()
}

// seconds is a time for the tables, and empty for none.
func seconds(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf("%.3g", d.Round(time.Millisecond).Seconds())
}

// TestFailoverReportKeepsOtherScenarios: a scenario can be measured alone, and takes the place of
// its last result.
func TestFailoverReportKeepsOtherScenarios(t *testing.T) {
	dir := t.TempDir()
	result := func(name string, ms ...time.Duration) failoverResult {
		r := failoverResult{Name: name, About: "about " + name, Events: 5}
		for _, d := range ms {
			r.Failures = append(r.Failures, failoverFailure{Readers: d * time.Millisecond, All: 3 * d * time.Millisecond})
		}
		return r
	}
	for _, r := range []failoverResult{result("three", 1), result("two", 7), result("three", 10, 40, 20, 30)} {
		before, err := failoversIn(dir)
		if err == nil {
			err = before.with(r).write(dir)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := failoversIn(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Name != "two" || got[1].Name != "three" || len(got[1].Failures) != 4 {
		t.Fatalf("the report has %+v", got)
	}
	text, err := os.ReadFile(filepath.Join(dir, failoverName+".md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| about two | 1 | readers | 0.007 | 0.007 | 0.007 | 0.007 |  |  |\n", "| about three | 4 | all partitions | 0.03 | 0.06 | 0.12 | 0.12 |  |  |\n",
		"| about three |  |  |  |  |  | 0.06 | 0 |\n", "| about two | 0 | 0 | 5 | 0 | 0 | 0 |",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the report has no line %q:\n%s", want, text)
		}
	}
}
