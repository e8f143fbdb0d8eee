package restoretime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward/bench/benchtopics"
	"github.com/onceward/onceward/bench/comparison/streams"
	"github.com/onceward/onceward/bench/measure"
)

// The heaps with which the double of Java goes wrong.
const (
	heapTooSmall = "1m"
	heapForgets  = "2m"
	heapConfuses = "3m"
)

// runJava makes the test binary a test double of Java, if it was started for that. It compiles
// nothing, and reads the changelogs instead of restoring them. e2e/figures runs the real Kafka
// Streams.
func runJava() {
	if len(os.Args) < 2 {
		return
	}
	switch {
	case os.Args[1] == "-version":
		fmt.Print("double version \"17\"\ndouble of Java\n")
		os.Exit(0)
	case os.Args[1] == "-m":
		os.Exit(0)
	case strings.HasPrefix(os.Args[1], "-Xmx"):
		if err := restoreAsJava(strings.TrimPrefix(os.Args[1], "-Xmx")); err != nil {
			fmt.Fprintln(os.Stderr, "double:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

func restoreAsJava(heap string) error {
	if heap == heapTooSmall {
		fmt.Println("Terminating due to java.lang.OutOfMemoryError: Java heap space")
		os.Exit(3)
	}
	args := os.Args[slices.Index(os.Args, "StreamsRestore")+1:]
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	properties := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		properties[key] = value
	}
	if properties["processing.guarantee"] != "exactly_once_v2" || properties["num.stream.threads"] == "" ||
		properties["state.dir"] == "" {
		return fmt.Errorf("the properties are %v", properties)
	}
	ctx, brokers := context.Background(), strings.Split(properties["bootstrap.servers"], ",")
	c, err := benchtopics.Connect(brokers)
	if err != nil {
		return err
	}
	defer c.Close()
	began := time.Now()
	var rep report
	for _, store := range args[3:] {
		var all Content
		for p := range int32(2) {
			content, err := read(ctx, c, brokers, changelog(properties["application.id"], store), p)
			if err != nil {
				return err
			}
			all.add(content)
			rep.Parts = append(rep.Parts, Part{Store: store, Partition: p, To: time.Since(began), Records: content.Records})
		}
		rep.Contents = append(rep.Contents, storeReport{store, all.Entries, strconv.FormatUint(all.Digest, 16)})
	}
	if heap == heapForgets {
		rep.Parts[3].Records--
	}
	if heap == heapConfuses {
		rep.Contents[1].Digest = rep.Contents[1].Digest[1:]
	}
	if args[2] != "read" {
		rep.Contents = nil
	}
	if err := measure.Report(rep); err != nil {
		return err
	}
	measure.AwaitEnd()
	return nil
}

// TestCompareOnEmbeddedBroker runs a whole comparison with the double, and the controls.
func TestCompareOnEmbeddedBroker(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Brokers: broker.ListenAddrs(), Name: "compared", Dir: t.TempDir(), Rounds: 2, SearchRuns: 1, Streams: &streams.Installation{Java: self},
		Data:    Data{Records: 3200, Partitions: 2, Updates: 0.25, Seed: 7},
		Tunings: []streams.Tuning{{Name: "one", Threads: 1}, {Name: "two", Threads: 2, Properties: []string{"a=b"}}},
		Heaps:   []string{"64m", heapTooSmall},
	}
	r, err := Measure(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Tunings) != 2 || r.Heap != "64m" || r.SmallHeap != "64m" || len(r.Heaps) != 2 || r.Java != "double of Java" {
		t.Errorf("settings of Kafka Streams: %+v", r)
	}
	if !strings.Contains(r.Heaps[1].Failed, "OutOfMemoryError") && !strings.Contains(r.Heaps[1].Failed, "exit status 3") {
		t.Errorf("with too small a heap: %q", r.Heaps[1].Failed)
	}
	for _, round := range r.Rounds {
		o, s := round.Onceward, round.Streams
		if o.Records != 3200 || s.Records != 3200 || len(s.Parts) != 4 || round.Small != s {
			t.Errorf("a round of %+v and %+v", o, s)
		}
	}
	if err := r.Write(cfg.Dir); err != nil {
		t.Error(err)
	}
	var written struct {
		Summary Summary
		Result
	}
	if encoded, err := os.ReadFile(cfg.Dir + "/restore.json"); err != nil || json.Unmarshal(encoded, &written) != nil ||
		written.Summary.Speed != r.Summary().Speed || len(written.Rounds) != 2 {
		t.Errorf("written are %+v, %v", written, err)
	}
	text := r.Markdown()
	if !strings.Contains(text, "times Kafka Streams with -Xmx64m") || !strings.Contains(text, "did not get through") {
		t.Errorf("the report is\n%s", text)
	}
	for heap, want := range map[string]error{heapForgets: errRecords, heapConfuses: errContents} {
		wrong := cfg
		wrong.Name, wrong.Dir, wrong.Heaps = "wrong-"+heap, t.TempDir(), []string{heap}
		if _, err := Measure(t.Context(), wrong); !errors.Is(err, want) {
			t.Errorf("with -Xmx%s: %v, want %v", heap, err, want)
		}
	}
}
