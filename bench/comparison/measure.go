package comparison

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/bench/benchtopics"
	"github.com/onceward/onceward/bench/comparison/streams"
	"github.com/onceward/onceward/bench/latency"
	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/bench/restoretime"
	"github.com/onceward/onceward/bench/throughput"
	"github.com/onceward/onceward/bench/workload"
)

// Config is one measurement. Topics and groups whose names start with Name are made, and deleted.
type Config struct {
	Brokers []string
	// BrokerPID is the process of the one broker there is, on this machine. At 0 its processor time
	// is not measured.
	BrokerPID int
	// Broker says for people what is measured on, such as the version and the settings of the
	// brokers. Command is what made the measurement, and Revision says which Onceward it is of.
	Broker, Command, Revision string
	Name                      string
	// Dir takes state and logs, and the classes of the Kafka Streams programs.
	Dir string
	// Workloads are compared in this order. Nil is all that every candidate has, the flights only
	// if Input has them.
	Workloads []string
	// Records and Partitions are those of the inputs, Input says what is in them.
	Records    int64
	Partitions int32
	Input      workload.Input
	// Rounds is how often the candidates take turns.
	Rounds int
	// Only are the candidates that take part, nil for all.
	Only []string
	// Streams is nil for a measurement without Kafka Streams.
	Streams *streams.Installation
	// Choices are the settings of Kafka Streams when tuned, by workload. Nil are those of
	// sweep.json.
	Choices Choices
	// Tunings are what a sweep tries; nil is a choice of this package's.
	Tunings []streams.Tuning
	// Latency, Recovery, Restore and Scaling are measured unless they are nil.
	Latency  *LatencyConfig
	Recovery *RecoveryConfig
	Restore  *RestoreConfig
	Scaling  *ScalingConfig
	// Progress is told what is done; nil discards it.
	Progress io.Writer
	// Done gets the result so far after each part, so that it is not lost if a later part fails.
	// Its error ends the measurement. It may be nil.
	Done func(Result) error
}

// Choices are settings of Kafka Streams by workload.
type Choices map[string]streams.Choice

// Result is what a measurement has found.
type Result struct {
	Time time.Time `json:"time"`
	// Measured says when and how each part was measured: parts of an earlier result may have been
	// kept (With).
	Measured map[string]Occasion `json:"measured"`
	// Command is how it was found, Revision which Onceward it is of, Machine on what.
	Command  string `json:"command"`
	Revision string `json:"revision,omitempty"`
	Machine  string `json:"machine"`
	// Broker, Streams and Java are versions.
	Broker  string         `json:"broker"`
	Streams string         `json:"streams_version,omitempty"`
	Java    string         `json:"java_version,omitempty"`
	Limits  measure.Limits `json:"limits,omitempty"`
	// Choices are the settings of Kafka Streams when tuned.
	Choices     Choices      `json:"choices,omitempty"`
	Comparisons []Comparison `json:"comparisons"`
	Latency     []Latency    `json:"latency,omitempty"`
	Recovery    []Recovery   `json:"recovery,omitempty"`
	// Restore is that of package restoretime.
	Restore *restoretime.Result `json:"restore,omitempty"`
	Scaling []Scaling           `json:"scaling,omitempty"`
}

// Comparison is one workload.
type Comparison struct {
	Workload string            `json:"workload"`
	About    string            `json:"about"`
	Input    throughput.Filled `json:"input"`
	// Tuned is what Kafka Streams ran with when tuned, nil if it took no part, and in results of
	// older builds.
	Tuned  *Tuned  `json:"tuned,omitempty"`
	Rounds []Round `json:"rounds"`
}

// Tuned are the settings of Kafka Streams in one comparison.
type Tuned struct {
	Tuning    streams.Tuning `json:"tuning"`
	Heap      string         `json:"heap"`
	SmallHeap string         `json:"small_heap"`
	// SweptFor is the workload that they were found for; empty if it was none.
	SweptFor string `json:"swept_for,omitempty"`
}

// Round is what the candidates did in one turn, in its order.
type Round struct {
	// Load is the machine's load average before.
	Load string `json:"load"`
	Runs []Run  `json:"runs"`
}

// measurement is one run of Measure.
type measurement struct {
	cfg     Config
	cluster *benchtopics.Cluster
	streams streams.Installation
	choices Choices
	result  Result
	// made counts the applications and topics, each of which has a name of its own.
	made int
	// filled are the inputs that are there.
	filled map[content]throughput.Filled
}

// content says what is in an input. Workloads that read the same share it.
type content struct {
	data       workload.Data
	records    int64
	partitions int32
	workload.Input
}

// Measure compares the candidates. See the package comment for the rules.
func Measure(ctx context.Context, cfg Config) (_ Result, err error) {
	if cfg.Rounds < 1 || cfg.Records < 1 || cfg.Partitions < 1 {
		return Result{}, fmt.Errorf("%d rounds over %d records in %d partitions: at least one of each", cfg.Rounds, cfg.Records,
			cfg.Partitions)
	}
	m, err := newMeasurement(ctx, cfg)
	if err != nil {
		return Result{}, err
	}
	defer m.cluster.Close()
	defer func() { err = m.drop(ctx, err) }()
	parts, err := m.parts()
	if err != nil {
		return Result{}, err
	}
	for _, p := range parts {
		if p.candidates == 0 {
			m.say("%-11s  is left out: none of the named candidates takes part in it", p.name)
			continue
		}
		if len(m.result.Measured) == 0 {
			if err := m.warmUp(ctx, p.workload); err != nil {
				return Result{}, err
			}
		}
		if err := m.do(ctx, p); err != nil {
			return Result{}, err
		}
	}
	return m.result, nil
}

func newMeasurement(ctx context.Context, cfg Config) (_ *measurement, err error) {
	m := &measurement{cfg: cfg, choices: cfg.Choices, filled: map[content]throughput.Filled{}}
	if m.cfg.Progress == nil {
		m.cfg.Progress = io.Discard
	}
	for _, name := range cfg.Only {
		if !slices.Contains(candidateNames, name) {
			return nil, fmt.Errorf("there is no candidate %q; there are %s", name, strings.Join(candidateNames, ", "))
		}
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	if m.choices == nil {
		if m.choices, err = swept(); err != nil {
			return nil, err
		}
	}
	m.result = Result{
		Time: time.Now().UTC(), Command: cfg.Command, Revision: cfg.Revision, Machine: measure.Machine(), Broker: cfg.Broker,
		Limits: measure.LimitsNow(), Measured: map[string]Occasion{},
	}
	if cfg.Streams != nil {
		m.result.Streams, m.result.Choices = streams.Version, m.choices
		if m.result.Java, err = cfg.Streams.JavaVersion(ctx); err != nil {
			return nil, err
		}
		if m.streams, err = cfg.Streams.Compile(ctx, cfg.Dir); err != nil {
			return nil, err
		}
	}
	m.cluster, err = benchtopics.Connect(cfg.Brokers)
	return m, err
}

func (m *measurement) say(format string, args ...any) {
	_, _ = fmt.Fprintf(m.cfg.Progress, format+"\n", args...) // who cannot be told misses nothing that is not in the result
}

// compared are the workloads that Kafka Streams has too, but for the flights, which have their own
// data.
var compared = []string{"pass", "count", "ledger", "repartition", "stream-table", "stream-stream", "foreign-key", "sessions"}

// flights is that workload.
const flights = "flights"

// workloads are those that are compared.
func (m *measurement) workloads() ([]workload.Workload, error) {
	names := m.cfg.Workloads
	if names == nil {
		names = compared
		if m.cfg.Input.Flights != "" {
			names = append(slices.Clone(names), flights)
		}
	}
	var all []workload.Workload
	for _, name := range names {
		w, err := workload.Find(name)
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return all, nil
}

// compare lets the candidates take turns on one input. The first one changes from round to round.
func (m *measurement) compare(ctx context.Context, w workload.Workload) (c Comparison, err error) {
	in, err := m.input(ctx, w, m.cfg.Records, m.cfg.Partitions, m.cfg.Input)
	if err != nil {
		return c, err
	}
	c = Comparison{Workload: w.Name, About: w.About, Input: in.Filled}
	all := m.candidates(w)
	if slices.ContainsFunc(all, func(c candidate) bool { return c.name == StreamsTuned || c.name == StreamsSmall }) {
		choice, sweptFor := m.choices.choice(w)
		c.Tuned = &Tuned{choice.Tuning, choice.Heap, choice.SmallHeap, sweptFor}
	}
	for n := range m.cfg.Rounds {
		round, first := Round{Load: latency.LoadAverage()}, n%len(all)
		for _, who := range slices.Concat(all[first:], all[:first]) {
			r, err := m.run(ctx, who, in, variant{})
			if err != nil {
				return c, err
			}
			m.say("%-11s  round %d  %s", w.Name, n+1, r)
			round.Runs = append(round.Runs, r)
		}
		c.Rounds = append(c.Rounds, round)
	}
	return c, nil
}

// input is a filled topic, for one of the workloads that read it.
type input struct {
	workload workload.Workload
	throughput.Filled
}

// input returns an input, which it writes when it is asked for the first time.
func (m *measurement) input(
	ctx context.Context, w workload.Workload, records int64, partitions int32, in workload.Input,
) (_ input, err error) {
	key := content{w.Data, records, partitions, in}
	filled, there := m.filled[key]
	if !there {
		filled, err = throughput.Fill(ctx, throughput.FillConfig{
			Brokers: m.cfg.Brokers, Workload: w.Name, Topic: m.name(string(w.Data)), Partitions: partitions, Records: records, Input: in,
		})
		if err != nil {
			return input{}, err
		}
		m.filled[key] = filled
		m.say("%s", filled)
	}
	filled.Workload = w.Name
	return input{w, filled}, nil
}

// drop deletes the inputs.
func (m *measurement) drop(ctx context.Context, err error) error {
	var names []string
	for _, in := range m.filled {
		names = append(names, in.Topic)
	}
	return joined(err, m.cluster.Delete(context.WithoutCancel(ctx), names...))
}

// name makes a unique name for an application or a topic.
func (m *measurement) name(parts ...string) string {
	m.made++
	return strings.ReplaceAll(fmt.Sprintf("%s-%s-%d", m.cfg.Name, strings.Join(parts, "-"), m.made), " ", "-")
}
