package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Counts are the counters from which the console makes rates. They count since the process started,
// and are sums of what a scrape returns.
type Counts struct {
	// Records are the committed records of each task, by topic, in order.
	Records []RecordCount `json:"records"`
	// Outcomes are what the nodes of a subtopology counted, whatever the outcome, in order.
	Outcomes []OutcomeCount `json:"outcomes"`
	// CommitSeconds is the histogram of the times of commits, without its last bucket, whose bound
	// is infinite. Commits is the count of all.
	CommitSeconds []Bucket `json:"commit_seconds"`
	Commits       uint64   `json:"commits"`
}

// RecordCount counts committed records. Task is the name of the task.
type RecordCount struct {
	Task  string  `json:"task"`
	Topic string  `json:"topic"`
	Count float64 `json:"count"`
}

// OutcomeCount counts the outcomes of a node.
type OutcomeCount struct {
	Subtopology string  `json:"subtopology"`
	Node        string  `json:"node"`
	Count       float64 `json:"count"`
}

// Bucket counts observations up to a bound, those of smaller buckets included.
type Bucket struct {
	Bound float64 `json:"bound"`
	Count uint64  `json:"count"`
}

// Counts reads the counters. It reads no gauge, and waits for nothing.
func (m *Metrics) Counts() Counts {
	families, err := m.counts.Gather()
	if err != nil {
		return Counts{} // only a metric that contradicts its description fails, and these are made here
	}
	out := Counts{Records: []RecordCount{}, Outcomes: []OutcomeCount{}, CommitSeconds: []Bucket{}}
	records, outcomes := map[[2]string]float64{}, map[[2]string]float64{}
	for _, f := range families {
		for _, one := range f.GetMetric() {
			label := map[string]string{}
			for _, l := range one.GetLabel() {
				label[l.GetName()] = l.GetValue()
			}
			switch f.GetName() {
			case namespace + "_records_committed_total":
				records[[2]string{label["task"], label["topic"]}] += one.GetCounter().GetValue()
			case namespace + "_node_outcomes_total":
				outcomes[[2]string{subtopologyOf(label["task"]), label["node"]}] += one.GetCounter().GetValue()
			case namespace + "_commit_seconds":
				out.Commits = one.GetHistogram().GetSampleCount()
				for _, b := range one.GetHistogram().GetBucket() {
					out.CommitSeconds = append(out.CommitSeconds, Bucket{b.GetUpperBound(), b.GetCumulativeCount()})
				}
			}
		}
	}
	for _, of := range sortedPairs(records) {
		out.Records = append(out.Records, RecordCount{of[0], of[1], records[of]})
	}
	for _, of := range sortedPairs(outcomes) {
		out.Outcomes = append(out.Outcomes, OutcomeCount{of[0], of[1], outcomes[of]})
	}
	return out
}

// countsOf returns a registry of these metrics only.
func countsOf(all ...prometheus.Collector) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(all...)
	return r
}

// subtopologyOf returns the subtopology in the name of a task, which ends in the partition.
func subtopologyOf(task string) string { return task[:max(strings.LastIndexByte(task, '_'), 0)] }

func sortedPairs(of map[[2]string]float64) [][2]string {
	return slices.SortedFunc(maps.Keys(of), func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
}
