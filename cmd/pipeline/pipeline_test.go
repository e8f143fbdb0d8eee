package pipeline_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/onceward/onceward/cmd/pipeline"
	"github.com/onceward/onceward/topology/topologytest"
)

// Every pipeline in testdata is one that people may copy.
func TestCommittedPipelines(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if _, err := pipeline.Load(file); err != nil {
			t.Error(err)
		}
	}
}

// The pipeline in the package documentation is one.
func TestDocumentedPipeline(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(doc), "//\tname: ")
	snippet, _, found := strings.Cut("//\tname: "+after, "//\n")
	if !found {
		t.Fatal("doc.go has no pipeline")
	}
	if _, err := pipeline.Parse("doc.go", []byte(strings.ReplaceAll(snippet, "//\t", ""))); err != nil {
		t.Error(err)
	}
}

// The transcripts of testdata/transcript show pipelines and what becomes of records:
//
//	pipeline     a pipeline, and the mistakes in it, or nothing
//	describe     the same for a pipeline whose topology is shown
//	create       a topic with two partitions
//	pipe         records for a topic, and everything that they lead to
//
// A line of pipe is a key, a value and headers (name=text after a #); - is null. With several lines
// each is a record. A line that begins with a time, such as +90s, has the timestamp that long after
// the beginning of 2000.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcript", func(t *testing.T, path string) {
		var d *topologytest.Driver
		datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
			switch td.Cmd {
			case "pipeline", "describe":
				top, err := pipeline.Parse("p.yaml", []byte(td.Input))
				if err != nil {
					d = nil
					return err.Error() + "\n"
				}
				if d, err = topologytest.New(top); err != nil {
					t.Fatal(err)
				}
				if td.Cmd == "describe" {
					return top.Describe()
				}
				return ""
			case "create", "pipe":
				if d == nil {
					return "there is no pipeline\n"
				}
				if td.Cmd == "create" {
					return create(t, d, td)
				}
				return pipe(t, d, td)
			}
			td.Fatalf(t, "unknown command %s", td.Cmd)
			return ""
		})
	})
}

func create(t *testing.T, d *topologytest.Driver, td *datadriven.TestData) string {
	var topic string
	td.ScanArgs(t, "topic", &topic)
	if err := d.CreateTopic(topic, 2); err != nil {
		return err.Error() + "\n"
	}
	return ""
}

func pipe(t *testing.T, d *topologytest.Driver, td *datadriven.TestData) string {
	var topic string
	td.ScanArgs(t, "topic", &topic)
	var out strings.Builder
	for line := range strings.Lines(td.Input) {
		line, headers, _ := strings.Cut(strings.TrimSpace(line), " #")
		var opts []topologytest.PipeOption
		if after, rest, timed := strings.Cut(line, " "); timed && strings.HasPrefix(line, "+") {
			since, err := time.ParseDuration(after)
			if err != nil {
				td.Fatalf(t, "%v", err)
			}
			line, opts = rest, append(opts, topologytest.At(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(since)))
		}
		k, v, _ := strings.Cut(line, " ")
		for _, h := range strings.Fields(headers) {
			name, text, _ := strings.Cut(h, "=")
			opts = append(opts, topologytest.Header(name, text))
		}
		if err := d.PipeRaw(topic, nullable(k), nullable(v), opts...); err != nil {
			fmt.Fprintf(&out, "stopped: %v\n", err)
		}
	}
	for _, arg := range td.CmdArgs {
		if arg.Key == "out" {
			for _, name := range arg.Vals {
				printOutput(t, &out, d, name)
			}
		}
	}
	return out.String()
}

func printOutput(t *testing.T, out *strings.Builder, d *topologytest.Driver, name string) {
	records, err := d.OutputRaw(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		fmt.Fprintf(out, "%s: %s %s", name, text(r.Key), text(r.Value))
		for _, h := range r.Headers {
			switch h.Key {
			case "onceward.node", "onceward.class", "onceward.message", "onceward.source":
				fmt.Fprintf(out, " %s=%q", strings.TrimPrefix(h.Key, "onceward."), h.Value)
			}
		}
		out.WriteString("\n")
	}
}

func nullable(text string) []byte {
	if text == "-" {
		return nil
	}
	return []byte(text)
}

func text(b []byte) string {
	if b == nil {
		return "-"
	}
	return string(b)
}

// People sort keys. The order of the columns in the stores must not follow.
func TestOrderOfAmountsDoesNotMatter(t *testing.T) {
	fingerprint := func(amounts string) string {
		top, err := pipeline.Parse("p.yaml", []byte(`
name: p
source: {topic: in}
steps:
  - ledger: {name: l, id: event.id, amounts: {`+amounts+`}, into: out}
`))
		if err != nil {
			t.Fatal(err)
		}
		return top.Fingerprint()
	}
	one := fingerprint("fee: event.fee, amount: event.amount")
	other := fingerprint("amount: event.amount, fee: event.fee")
	if one != other {
		t.Errorf("the fingerprints are %s and %s", one, other)
	}
	if third := fingerprint("amount: event.amount, tax: event.fee"); third == one {
		t.Error("the names of columns are not part of the fingerprint")
	}
}

func TestUnreadableFiles(t *testing.T) {
	_, err := pipeline.Load(filepath.Join(t.TempDir(), "nosuch.yaml"))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file is %v", err)
	}
	large := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(large, []byte(strings.Repeat("# \n", 1<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = pipeline.Load(large)
	wrong, ok := errors.AsType[*pipeline.Error](err)
	if !ok || len(wrong.Mistakes) != 1 || wrong.Mistakes[0].File != large || wrong.Mistakes[0].Line != 0 {
		t.Errorf("a large file is %v", err)
	}
}
