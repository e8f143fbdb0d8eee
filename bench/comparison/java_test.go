package comparison

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/bench/measure"
)

// The heaps with which the double of Java goes wrong.
const (
	heapTooSmall = "1m"
	// heapInvents writes an output too many, heapClaims reports a store that should not be there.
	heapInvents = "2m"
	heapClaims  = "3m"
)

// runJava makes the test binary a double of Java, if it was started like that. It compiles nothing,
// and copies records with the loop: the workload pass has no state.
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
	case slices.Contains(os.Args, "StreamsWorkload"):
		if err := passAsJava(); err != nil {
			fmt.Fprintln(os.Stderr, "double:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

func passAsJava() error {
	text, err := os.ReadFile(os.Args[slices.Index(os.Args, "StreamsWorkload")+1])
	if err != nil {
		return err
	}
	properties := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		properties[key] = value
	}
	if properties["processing.guarantee"] != "exactly_once_v2" || properties["bench.workload"] != "pass" ||
		properties["state.dir"] == "" {
		return fmt.Errorf("the properties are %v", properties)
	}
	s := settings{
		Brokers: strings.Split(properties["bootstrap.servers"], ","), Application: properties["application.id"],
		In: properties["bench.in"], Out: properties["bench.out"],
	}
	ctx, end := context.WithCancel(context.Background())
	defer end()
	answer := report{Contents: []storeReport{}}
	switch {
	case slices.Contains(os.Args, "-Xmx"+heapTooSmall):
		fmt.Println("Terminating due to java.lang.OutOfMemoryError: Java heap space")
		os.Exit(3)
	case slices.Contains(os.Args, "-Xmx"+heapInvents):
		if err := invent(ctx, s); err != nil {
			return err
		}
	case slices.Contains(os.Args, "-Xmx"+heapClaims):
		answer.Contents = append(answer.Contents, storeReport{Store: "counts"})
	}
	if err := measure.Report(map[string]bool{"running": true}); err != nil {
		return err
	}
	// An empty list has to be seen: report leaves it out.
	go func() {
		defer end()
		for measure.AwaitLine() == nil {
			if measure.Report(map[string]any{"contents": answer.Contents}) != nil {
				return
			}
		}
	}()
	return s.loop(ctx)
}

// invent writes an output that nothing has led to.
func invent(ctx context.Context, s settings) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers...), kgo.DefaultProduceTopic(s.Out))
	if err != nil {
		return err
	}
	defer cl.Close()
	return errors.Join(cl.ProduceSync(ctx, &kgo.Record{Key: make([]byte, 8), Value: make([]byte, 100)}).FirstErr())
}
