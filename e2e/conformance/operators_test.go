package conformance

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// operator is a topology that both sides have.
type operator struct {
	caseTraits
	declare func(b *topology.Builder)
}

// control is a topology that is wrong in one detail.
type control struct {
	operator string
	declare  func(b *topology.Builder)
}

// allOperators collects what the files of this package declare.
func allOperators(t *testing.T) map[string]operator {
	t.Helper()
	all := map[string]operator{}
	for _, group := range operatorGroups {
		for name, o := range group {
			if _, twice := all[name]; twice {
				t.Fatalf("the operator %s is declared twice", name)
			}
			if o.topics == nil {
				o.topics = []string{"in"}
			}
			all[name] = o
		}
	}
	return all
}

// casesOf are the named cases of an operator and its random ones.
func casesOf(name string, o operator) []operatorCase {
	byName := namedRecords(o.caseTraits)
	var cases []operatorCase
	for _, n := range slices.Sorted(maps.Keys(byName)) {
		cases = append(cases, operatorCase{operator: name, name: n, caseTraits: o.caseTraits, records: byName[n]})
	}
	for i := range *casesPerOperator {
		r := rand.New(rand.NewPCG(*seed, uint64(i)))
		cases = append(cases, operatorCase{
			operator: name, name: fmt.Sprintf("random %d of seed %d", i, *seed), caseTraits: o.caseTraits, records: randomRecords(r, o.caseTraits),
		})
	}
	for i := range cases {
		if o.nullsBehind {
			cases[i].records = limitNulls(cases[i].records)
		}
		if o.deletesApart {
			cases[i].records = partDeletes(cases[i].records)
		}
	}
	return cases
}

// runHere returns what our side makes of a case.
func runHere(t *testing.T, built *topology.Topology, c operatorCase) caseOutputs {
	t.Helper()
	options := []topologytest.Option{topologytest.Clock(time.UnixMilli(clockStart))}
	for _, topic := range c.topics { // a pattern reads those that are there
		options = append(options, topologytest.TopicPartitions(topic, 1))
	}
	d, err := topologytest.New(built, options...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range c.records {
		if err := r.feed(d); err != nil {
			t.Fatal(err)
		}
	}
	var out caseOutputs
	for _, topic := range d.Topics() {
		if !strings.HasPrefix(topic, "out") {
			continue
		}
		raw, err := d.OutputRaw(topic)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range raw {
			line := fmt.Sprintf("%s %d %s %s", topic, r.Timestamp, hexOf(r.Key), hexOf(r.Value))
			if !c.headerless {
				line += headersText(r.Headers)
			}
			out = append(out, line)
		}
	}
	if !c.uncounted {
		out = append(out, fmt.Sprintf("dropped %d", droppedRecords(t, d)))
	}
	return out.compared(c.caseTraits)
}

// compared is what of the lines is compared.
func (o caseOutputs) compared(t caseTraits) caseOutputs {
	if t.settled {
		last := map[string]string{}
		for _, line := range o {
			fields := strings.Fields(line) // topic, time, key, value
			if last[fields[2]] = line; fields[3] == "-" {
				delete(last, fields[2])
			}
		}
		return slices.Sorted(maps.Values(last))
	}
	return o
}

// droppedRecords is how many records were left out. Records that Kafka Streams drops are counted
// here, one outcome for each reason, or become dead letters: nulls that the topic does not allow,
// and refused timestamps.
func droppedRecords(t *testing.T, d *topologytest.Driver) int64 {
	t.Helper()
	letters, err := d.DeadLetters()
	if err != nil {
		t.Fatal(err)
	}
	n := int64(len(letters))
	for _, c := range d.Counts() {
		switch c.Outcome {
		case "late", "null-key", "null-value", "invalid-timestamp", "null-foreign-key", "late-answer", "out-of-order", "skipped":
			n += c.N
		}
	}
	return n
}

// feed gives r to our driver.
func (r caseRecord) feed(d *topologytest.Driver) error {
	if r.clock > 0 {
		return d.Advance(time.Duration(r.clock) * ms)
	}
	return d.PipeRaw(r.topic, r.keyBytes(), r.valueBytes(), topologytest.At(time.UnixMilli(r.at)),
		func(raw *topologytest.Raw) { raw.Headers = r.headers })
}

func buildOperator(t *testing.T, declare func(b *topology.Builder)) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("differential", topology.DeadLetters("dead"))
	declare(b)
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// TestOperatorsDoWhatKafkaStreamsDoes runs every case of every operator on both sides. Controls are
// topologies that are wrong in one detail: the cases of their operator have to find them.
func TestOperatorsDoWhatKafkaStreamsDoes(t *testing.T) {
	t.Parallel()
	operators, controls := allOperators(t), controlsByOperator(t)
	only := regexp.MustCompile(*onlyOperators)
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(operators)), func(name string) bool { return !only.MatchString(name) })
	var cases []operatorCase
	for _, name := range names {
		cases = append(cases, casesOf(name, operators[name])...)
	}
	streams := streamsRun(t, cases)
	records, written := 0, 0
	for _, name := range names {
		cases := casesOf(name, operators[name])
		want := streams[:len(cases)]
		streams = streams[len(cases):]
		t.Run(name, func(t *testing.T) {
			built := buildOperator(t, operators[name].declare)
			differ := 0
			for i, c := range cases {
				records += len(c.records)
				written += len(want[i])
				want[i] = want[i].compared(c.caseTraits)
				got := runHere(t, built, c)
				if slices.Equal(got, want[i]) {
					continue
				}
				if differ++; differ <= 3 {
					t.Errorf("%s:\n%swritten here:\n%sby Kafka Streams:\n%s", c.name, c.people(), got.people(), want[i].people())
				}
			}
			if differ > 0 {
				t.Errorf("%d cases differ", differ)
			}
			for _, wrong := range slices.Sorted(maps.Keys(controls[name])) {
				findControl(t, wrong, controls[name][wrong], cases, want)
			}
		})
	}
	t.Logf("%d operators, %d cases, %d records read and %d written", len(names), len(cases), records, written)
}

// controlsByOperator collects the controls, by their operators and names.
func controlsByOperator(t *testing.T) map[string]map[string]control {
	t.Helper()
	all := map[string]map[string]control{}
	for _, group := range controlGroups {
		for name, c := range group {
			if all[c.operator] == nil {
				all[c.operator] = map[string]control{}
			}
			if _, twice := all[c.operator][name]; twice {
				t.Fatalf("the control %s is declared twice", name)
			}
			all[c.operator][name] = c
		}
	}
	operators := allOperators(t)
	for name := range all {
		if _, ok := operators[name]; !ok {
			t.Fatalf("there are controls of an operator %s that there is not", name)
		}
	}
	return all
}

// findControl wants at least one case to find a control.
func findControl(t *testing.T, name string, c control, cases []operatorCase, want []caseOutputs) {
	t.Helper()
	built := buildOperator(t, c.declare)
	differ := 0
	for i := range cases {
		if !slices.Equal(runHere(t, built, cases[i]), want[i]) {
			differ++
		}
	}
	if differ == 0 {
		t.Errorf("%s: none of %d cases finds it", name, len(cases))
	}
	t.Logf("%s: %d of %d cases find it", name, differ, len(cases))
}

// people writes outputs one a line.
func (o caseOutputs) people() string {
	if len(o) == 0 {
		return "  nothing\n"
	}
	return "  " + strings.Join(o, "\n  ") + "\n"
}

// TestOperatorCountControlsWriteTheSame: it is by how many records were dropped that they are
// found.
func TestOperatorCountControlsWriteTheSame(t *testing.T) {
	operators := allOperators(t)
	for name, c := range countControls {
		right, wrong := buildOperator(t, operators[c.operator].declare), buildOperator(t, c.declare)
		for _, one := range casesOf(c.operator, operators[c.operator]) {
			one.uncounted = true
			if want, got := runHere(t, right, one), runHere(t, wrong, one); !slices.Equal(got, want) {
				t.Fatalf("%s: %s:\n%swritten:\n%swant:\n%s", name, one.name, one.people(), got.people(), want.people())
			}
		}
	}
}

// TestOperatorCasesAreWhatTheyAreNamedFor keeps the generator honest: random cases have what they
// are made for.
func TestOperatorCasesAreWhatTheyAreNamedFor(t *testing.T) {
	late, nullKeys, nullValues, equal, negative, noHeaders, repeated, nullHeaders, passes := 0, 0, 0, 0, 0, 0, 0, 0, 0
	for i := range 1000 {
		latest := int64(-1)
		all := caseTraits{topics: []string{"in"}, negative: true, wallClock: true}
		for _, r := range randomRecords(rand.New(rand.NewPCG(1, uint64(i))), all) {
			count := func(n *int, is bool) {
				if is {
					*n++
				}
			}
			if r.clock > 0 {
				count(&passes, r.clock > punctuateEvery)
				continue
			}
			_, hasKey := r.key.Get()
			_, hasValue := r.value.Get()
			count(&late, r.at >= 0 && r.at < latest-windowGrace)
			count(&equal, r.at == latest)
			count(&negative, r.at < 0)
			count(&nullKeys, !hasKey)
			count(&nullValues, !hasValue)
			count(&noHeaders, len(r.headers) == 0)
			count(&repeated, len(r.headers) > 1 && r.headers[0].Key == r.headers[1].Key)
			count(&nullHeaders, len(r.headers) > 0 && r.headers[0].Value == nil)
			latest = max(latest, r.at)
		}
	}
	for what, n := range map[string]int{
		"late": late, "null keys": nullKeys, "null values": nullValues, "equal times": equal, "negative times": negative,
		"no headers": noHeaders, "a header that is repeated": repeated, "a header that is null": nullHeaders, "a clock that passes": passes,
	} {
		if n < 100 {
			t.Errorf("%d records with %s in 1000 cases", n, what)
		}
	}
}

var (
	strCodec  = schemas.String()
	longCodec = schemas.Int64()
)
