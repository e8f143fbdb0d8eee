package costs

import (
	"bytes"
	"debug/elf"
	"debug/gosym"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/onceward/onceward/bench/throughput"
)

// runs links the code that is profiled into the test, for TestFunctions.
var runs = throughput.Run

// TestDivide: a sample is the innermost step's, a read is its processor's, garbage collection is so
// wherever it strikes, and nothing is lost.
func TestDivide(t *testing.T) {
	const own = "github.com/onceward/onceward/"
	worker := []string{
		own + "topology.(*intake[go.shape.[]uint8,go.shape.struct { A [2]int }]).read", own + "topology.(*Graph).run",
		own + "txn/internal/task.(*Task).Process", own + "txn/internal/worker.(*Worker).process", own + "txn/internal/worker.(*Worker).loop",
	}
	inbox := append([]string{own + "processors/inbox.(*handler[go.shape.string]).decide"}, worker...)
	ledger := append([]string{own + "processors/ledger.(*handler[...]).add", own + "topology.guard[...].func1"}, inbox...)
	on := func(inner []string, outer ...string) []string {
		return append(append([]string(nil), inner...), outer...)
	}
	read := []string{"github.com/cockroachdb/pebble/v2.(*DB).getInternal", own + "state/pebblestore.(*database).Get",
		own + "state.(*taskStore).Get", own + "topology.(*watchedStore).Get", own + "state.(*keyValue[...]).Get"}
	tests := []struct {
		stack []string
		step  string
	}{
		{on([]string{"encoding/binary.Uvarint"}, worker...), "decode key and value, check the timestamp"},
		{on([]string{"crypto/sha256.Sum256"}, inbox...), "id, SHA-256 of the payload, and decide"},
		{on(read, inbox...), "see whether the id is there: overlay, rounds in flight, buffer, filter, Pebble"},
		{on(read, ledger...), "see whether the contribution is there, and read the balance"},
		{ledger, "add up"},
		{on([]string{"runtime.memmove", own + "state.(*overlay).put", own + "state.(*taskStore).write"}, ledger...), "three writes into the overlay"},
		{on([]string{"runtime.gcDrainN", "runtime.gcAssistAlloc1", "runtime.gcAssistAlloc", "runtime.mallocgc"}, ledger...), "collect garbage"},
		{on(on([]string{"syscall.Syscall"}, "net.(*conn).Write"), client+"(*brokerCxn).writeConn"),
			"seal batches, and send; note what is acknowledged"},
		{[]string{pebble + "/sstable.(*Writer).Add", pebble + ".(*DB).compact1"}, "flush tables, and compact them; build filters"},
		{[]string{pebble + ".(*Batch).Set", own + "state/pebblestore.addWrite", own + "state/pebblestore.(*database).Apply", own + "txn/internal/worker.(*committer).apply"},
			"apply: a batch, and into the buffer or the memtable"},
		{[]string{"runtime.findRunnable", "runtime.schedule"}, rest},
		{nil, rest},
	}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
	}
	want := map[string]int64{}
	for n, test := range tests {
		sample := &profile.Sample{Value: []int64{1, 1 << n}}
		for _, name := range test.stack {
			f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name}
			l := &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f}}}
			p.Function, p.Location, sample.Location = append(p.Function, f), append(p.Location, l), append(sample.Location, l)
		}
		p.Sample = append(p.Sample, sample)
		want[test.step] += 1 << n
	}
	var file bytes.Buffer
	if err := p.Write(&file); err != nil {
		t.Fatal(err)
	}
	shares, err := Divide(&file)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range shares {
		if s.Nanos != want[s.Step.Name] {
			t.Errorf("%q has the samples %b, want %b", s.Step.Name, s.Nanos, want[s.Step.Name])
		}
		delete(want, s.Step.Name)
	}
	if len(want) > 0 {
		t.Errorf("there are no steps %v", want)
	}
	if text := Table(shares, 1); !strings.HasSuffix(text, "| | all | | | 4095 |\n") {
		t.Errorf("the sum is not that of all samples:\n%s", text)
	}
}

// TestOtherProfiles: a profile of something else, and no profile, are refused.
func TestOtherProfiles(t *testing.T) {
	var heap bytes.Buffer
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "inuse_space", Unit: "bytes"}}}
	if err := p.Write(&heap); err != nil {
		t.Fatal(err)
	}
	if _, err := Divide(&heap); err == nil || !strings.Contains(err.Error(), "no processor time") {
		t.Errorf("a profile of memory: %v", err)
	}
	if _, err := Divide(strings.NewReader("text")); err == nil {
		t.Error("a text was divided")
	}
}

// TestFunctions: the functions of the steps are there, in what is linked into this test.
func TestFunctions(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the table of functions is looked for as in an ELF file")
	}
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	lines, err := file.Section(".gopclntab").Data()
	if err != nil {
		t.Fatal(err)
	}
	table, err := gosym.NewTable(nil, gosym.NewLineTable(lines, file.Section(".text").Addr))
	if err != nil {
		t.Fatal(err)
	}
	there := func(with string) bool {
		for _, f := range table.Funcs {
			if strings.HasPrefix(plain(f.Name), with) {
				return true
			}
		}
		return false
	}
	if runs == nil || there("no such function") {
		t.Fatal("a function is found that is not there")
	}
	for _, s := range Steps {
		for _, with := range slices.Concat(s.within, s.otherwise, []string{s.reader}) {
			if !there(with) {
				t.Errorf("%q: no function begins with %q", s.Name, with)
			}
		}
	}
	for _, with := range reads {
		if !there(with) {
			t.Errorf("no function for reads begins with %q", with)
		}
	}
}
