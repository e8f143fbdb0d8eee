// Package examples has whole programs to copy. Each is in a package of its own; README.md lists
// them. The tests of this package run the programs on an embedded broker.
package examples_test

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// patience bounds a run. It only decides how long a failure takes to show.
const patience = 3 * time.Minute

// event is a record for a topic of a program, or one that it has to write.
type event struct{ topic, key, value string }

func TestPrograms(t *testing.T) {
	t.Parallel()
	bin := build(t)
	for _, p := range []struct {
		name   string
		args   []string
		topics []string
		before []event // written before the program starts
		in     []event
		out    []event // in any order
	}{
		{
			name: "wordcount", topics: []string{"lines", "word-counts"},
			args: []string{"-brokers", "BROKERS", "-state-dir", "STATE"},
			in:   []event{{"lines", "", "to be or not to be"}},
			out: []event{
				{"word-counts", "to", "1"}, {"word-counts", "be", "1"}, {"word-counts", "or", "1"}, {"word-counts", "not", "1"},
				{"word-counts", "to", "2"}, {"word-counts", "be", "2"},
			},
		},
		{
			name: "accounts", topics: []string{"payments", "balances", "payments-dead"},
			in: []event{
				{"payments", "alice", `{"id":"p1","amount":100}`}, {"payments", "alice", `{"id":"p1","amount":100}`},
				{"payments", "alice", `{"id":"p1","amount":1}`},
			},
			out: []event{{"balances", "alice", anything}, {"payments-dead", "alice", `{"id":"p1","amount":1}`}},
		},
		{
			name: "orders", topics: []string{"orders", "customers", "payments", "settled-orders", "unpaid-orders", "orders-dead"},
			before: []event{{"customers", "c1", `{"name":"Ann"}`}},
			in:     []event{{"orders", "1", `{"customer":"c1","cents":500}`}, {"payments", "1", `{"cents":500}`}},
			out:    []event{{"settled-orders", "1", `{"name":"Ann","cents":500,"paid":500}`}},
		},
		{
			name: "sensors", topics: []string{"readings", "means", "silent", "readings-dead"},
			in: []event{
				{"readings", "roof", `{"at":"2026-03-01T12:00:10Z","celsius":20}`},
				{"readings", "roof", `{"at":"2026-03-01T12:00:20Z","celsius":21}`},
				{"readings", "roof", `{"at":"2026-03-01T12:05:00Z","celsius":30}`},
				{"readings", "roof", `yesterday`},
			},
			out: []event{
				{"means", "roof@2026-03-01T12:00:00.000Z/2026-03-01T12:01:00.000Z", `{"readings":2,"celsius":20.5}`},
				{"readings-dead", "roof", "yesterday"},
			},
		},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, p.topics...))
			if err != nil {
				t.Fatal(err)
			}
			defer broker.Close()
			outputs := slices.DeleteFunc(slices.Clone(p.topics), func(topic string) bool {
				return slices.ContainsFunc(slices.Concat(p.before, p.in), func(e event) bool { return e.topic == topic })
			})
			client, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.ConsumeTopics(outputs...),
				kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			send := func(events []event) {
				for _, e := range events {
					if err := client.ProduceSync(ctx, &kgo.Record{Topic: e.topic, Key: []byte(e.key), Value: []byte(e.value)}).FirstErr(); err != nil {
						t.Fatal(err)
					}
				}
			}
			send(p.before)

			args := []string{"run", "--brokers", "BROKERS", "--state-dir", "STATE"}
			if p.args != nil {
				args = p.args
			}
			program := start(t, filepath.Join(bin, p.name), broker.ListenAddrs()[0], args)
			send(p.in)
			program.stop(t, receive(ctx, client, p.out))
		})
	}
}

// anything is a value that a test does not look into.
const anything = "*"

// receive returns an error if a topic gets something else than it should.
func receive(ctx context.Context, client *kgo.Client, want []event) error {
	want = slices.Clone(want)
	for len(want) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return fmt.Errorf("%v have not come: %w", want, err)
		}
		for _, r := range fetches.Records() {
			i := slices.IndexFunc(want, func(e event) bool {
				return e.topic == r.Topic && e.key == string(r.Key) && (e.value == string(r.Value) || e.value == anything)
			})
			if i < 0 {
				return fmt.Errorf("%s has %s = %s, want one of %v", r.Topic, r.Key, r.Value, want)
			}
			want = slices.Delete(want, i, i+1)
		}
	}
	return nil
}

// build builds the programs into a folder. It uses the build tags of the test, so that the packages
// below the programs are compiled once.
func build(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	args := []string{"build", "-o", dir}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-tags" {
				args = append(args, "-tags", s.Value)
			}
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", append(args, "./wordcount", "./accounts", "./orders", "./sensors")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return dir
}

// running is a program in a process of its own.
type running struct {
	cmd    *exec.Cmd
	output *bytes.Buffer
	ended  chan error
}

// start runs a program.
func start(t *testing.T, path, broker string, args []string) *running {
	t.Helper()
	values := map[string]string{"BROKERS": broker, "STATE": filepath.Join(t.TempDir(), "state")}
	for i, arg := range args {
		if value := values[arg]; value != "" {
			args[i] = value
		}
	}
	p := &running{cmd: exec.CommandContext(t.Context(), path, args...), output: &bytes.Buffer{}, ended: make(chan error, 1)}
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	return p
}

// stop ends the program in order, and shows what it has said if anything has failed.
func (p *running) stop(t *testing.T, failure error) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && failure == nil {
		failure = err
	}
	select {
	case err := <-p.ended:
		if failure == nil {
			failure = err // an exit code other than 0
		}
	case <-time.After(patience):
		failure = fmt.Errorf("the program does not stop: %w", failure)
	}
	if failure != nil {
		t.Fatalf("%v\n%s", failure, p.output)
	}
}
