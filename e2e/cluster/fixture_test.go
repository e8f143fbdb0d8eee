package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"go.uber.org/goleak"
)

// fakeTB records how a test was ended.
type fakeTB struct {
	testing.TB // the real one, for what is not faked
	outcome    string
}

func (f *fakeTB) Helper()        {}
func (f *fakeTB) Failed() bool   { return false }
func (f *fakeTB) Fatal(a ...any) { f.end("fatal: " + fmt.Sprint(a...)) }
func (f *fakeTB) Skip(a ...any)  { f.end("skip: " + fmt.Sprint(a...)) }

func (f *fakeTB) Fatalf(format string, a ...any) { f.end("fatal: " + fmt.Sprintf(format, a...)) }

func (f *fakeTB) end(outcome string) {
	f.outcome = outcome
	runtime.Goexit()
}

// outcome runs f as a test and returns how it ended, "" if it just returned.
func outcome(t *testing.T, f func(testing.TB)) string {
	fake := &fakeTB{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(fake)
	}()
	<-done
	return fake.outcome
}

// testRun stands in for a package's tests in Main. Its runs ignore the goroutines that are there
// before: this process may have a shared broker of its own.
type testRun func() int

func (f testRun) Run() int { return f() }

// noKafka leaves this process without Java, jars and cluster.
func noKafka(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("JAVA_HOME", "")
	t.Setenv(envBrokers, "")
	t.Setenv(envRequire, "")
}

// saidOnce fails unless what was said is one line that begins with NOT RUN and has the text.
func saidOnce(t *testing.T, said, text string) {
	t.Helper()
	if strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "NOT RUN: ") || !strings.Contains(said, text) {
		t.Errorf("said is %q, want one line with %q", said, text)
	}
}

// TestKafkaIsSkippedUnlessAskedFor: a Java that is installed is not started without a word in the
// environment.
func TestKafkaIsSkippedUnlessAskedFor(t *testing.T) {
	noKafka(t)
	t.Setenv("PATH", filepath.Dir(script(t, "java", `touch "$(dirname "$0")/started"`)))
	for _, value := range []string{"", "0"} {
		t.Setenv(envRequire, value)
		var s sharedBroker
		var stderr bytes.Buffer
		code := s.run(testRun(func() int {
			for range 3 {
				got := outcome(t, func(t testing.TB) { s.get(t) })
				if !strings.HasPrefix(got, "skip: ") || !strings.Contains(got, "make test-kafka") {
					t.Errorf("with %s=%s a test on real Kafka ended in %q", envRequire, value, got)
				}
			}
			return 0
		}), &stderr, goleak.IgnoreCurrent())
		if code != 0 {
			t.Errorf("exit code %d", code)
		}
		saidOnce(t, stderr.String(), "make test-kafka")
		for what, f := range map[string]func(testing.TB){
			"Own": func(t testing.TB) { Own(t, KindKafka) }, "Java": func(t testing.TB) { Java(t, kafkaLibrary) },
		} {
			if got := outcome(t, f); !strings.HasPrefix(got, "skip: ") {
				t.Errorf("with %s=%s %s ended in %q", envRequire, value, what, got)
			}
		}
	}
	expectExists(t, false, filepath.Join(os.Getenv("PATH"), "started"))
}

func TestMissingKafkaFailsWhereRequired(t *testing.T) {
	noKafka(t)
	for value, want := range map[string]string{
		"1":     "fatal: cluster: no real Kafka here: no Java 17",
		"maybe": "fatal: cluster: " + envRequire + ` must be 0 or 1, not "maybe"`,
	} {
		t.Setenv(envRequire, value)
		var s sharedBroker
		var stderr bytes.Buffer
		s.run(testRun(func() int {
			if got := outcome(t, func(t testing.TB) { s.get(t) }); !strings.HasPrefix(got, want) {
				t.Errorf("with %s=%s: %q, want %q", envRequire, value, got, want)
			}
			return 0
		}), &stderr, goleak.IgnoreCurrent())
		if stderr.Len() > 0 {
			t.Errorf("with %s=%s it said %q", envRequire, value, stderr.String())
		}
	}
}

// TestMissingJavaIsSkippedBesideACluster: where the environment names a cluster, tests that start a
// broker of their own are skipped for want of Java, and the package says so once.
func TestMissingJavaIsSkippedBesideACluster(t *testing.T) {
	noKafka(t)
	t.Setenv(envBrokers, "127.0.0.1:1")
	_, missing := findJava(t.Context())
	if !errors.Is(missing, ErrUnavailable) {
		t.Fatalf("without Java: %v", missing)
	}
	var s sharedBroker
	var stderr bytes.Buffer
	s.run(testRun(func() int {
		for range 3 {
			got := outcome(t, func(t testing.TB) { s.unavailable(t, missing) })
			if !strings.HasPrefix(got, "skip: ") || !strings.Contains(got, "no Java 17") {
				t.Errorf("a test that starts a broker ended in %q", got)
			}
		}
		return 0
	}), &stderr, goleak.IgnoreCurrent())
	saidOnce(t, stderr.String(), "install Java 17")
}

// TestOneKindPerProcess: each half of a test runs in the process that tests on its kind of broker,
// and in no other.
func TestOneKindPerProcess(t *testing.T) {
	for _, c := range []struct {
		require, brokers string
		want             Kind
	}{{"", "", KindEmbedded}, {"0", "", KindEmbedded}, {"1", "", KindKafka}, {"", "127.0.0.1:1", KindKafka}} {
		t.Setenv(envRequire, c.require)
		t.Setenv(envBrokers, c.brokers)
		var kinds []Kind
		EachKind(t, func(_ *testing.T, k Kind) { kinds = append(kinds, k) })
		if !slices.Equal(kinds, []Kind{c.want}) {
			t.Errorf("with %s=%s and %s=%s the kinds are %v, want %s", envRequire, c.require, envBrokers, c.brokers, kinds, c.want)
		}
		got := outcome(t, func(tb testing.TB) { processBroker.expect(tb, KindEmbedded) })
		if skipped := strings.HasPrefix(got, "skip: "); skipped != (c.want == KindKafka) {
			t.Errorf("with %s=%s and %s=%s a test on the embedded broker ended in %q", envRequire, c.require, envBrokers, c.brokers, got)
		}
	}
}

func TestSharedBrokerNeedsMain(t *testing.T) {
	var s sharedBroker
	got := outcome(t, func(t testing.TB) { s.get(t) })
	if !strings.HasPrefix(got, "fatal: ") || !strings.Contains(got, "cluster.Main") {
		t.Errorf("without Main: %q", got)
	}
}

// TestMainStopsTheBroker runs tests that fail: the broker must go all the same.
func TestMainStopsTheBroker(t *testing.T) {
	t.Parallel()
	requireKafka(t)
	s := sharedBroker{options: Options{Own: true, ShortLived: true}}
	var stderr bytes.Buffer
	var n *kafkaNode
	code := s.run(testRun(func() int {
		first, second := s.get(t), s.get(t)
		if first != second {
			t.Error("two tests got two brokers")
		}
		for what, err := range map[string]error{
			"Kill": first.Kill(), "Restart": first.Restart(t.Context()), "Close": first.Close(),
		} {
			if !errors.Is(err, errShared) {
				t.Errorf("%s of the shared broker: %v", what, err)
			}
		}
		n = first.node.(*kafkaNode)
		return 1
	}), &stderr, goleak.IgnoreCurrent())
	if code != 1 {
		t.Errorf("exit code %d, want that of the tests, 1 (%s)", code, stderr.String())
	}
	select {
	case <-n.proc.ended:
	default:
		t.Error("the broker's process outlives Main")
	}
	expectExists(t, false, n.dir.path)
}

// TestDeadBrokerIsReported is about a shared broker that ends on its own, say for lack of memory:
// the tests after that must not blame what they test.
func TestDeadBrokerIsReported(t *testing.T) {
	t.Parallel()
	requireKafka(t)
	s := sharedBroker{options: Options{Own: true, ShortLived: true}}
	var stderr bytes.Buffer
	code := s.run(testRun(func() int {
		proc := s.get(t).node.(*kafkaNode).proc
		if err := proc.cmd.Process.Kill(); err != nil { // behind the harness's back
			t.Fatal(err)
		}
		<-proc.ended
		got := outcome(t, func(t testing.TB) { s.get(t) })
		if !strings.HasPrefix(got, "fatal: ") || !strings.Contains(got, "broker ended: signal: killed") {
			t.Errorf("a test that gets a dead broker ends in %q", got)
		}
		return 1
	}), &stderr, goleak.IgnoreCurrent())
	if code != 1 || stderr.Len() > 0 {
		t.Errorf("exit code %d, %q: what is left of the broker could not be closed", code, stderr.String())
	}
}

func TestMainFindsLeaks(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	var s sharedBroker
	var stderr bytes.Buffer
	code := s.run(testRun(func() int { go func() { <-stop }(); return 0 }), &stderr, goleak.IgnoreCurrent())
	if code != 1 || !strings.Contains(stderr.String(), "goroutines outlive") {
		t.Errorf("a leaked goroutine gives exit code %d and %q", code, stderr.String())
	}
}

// TestExternalCluster points the harness at a cluster that it did not start.
func TestExternalCluster(t *testing.T) {
	host := Embedded(t)
	t.Setenv(envBrokers, host.Brokers()[0])
	c, err := Start(t.Context(), KindKafka, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Kind() != KindKafka || !slices.Equal(c.Brokers(), host.Brokers()) {
		t.Errorf("is %s at %v", c.Kind(), c.Brokers())
	}
	if err := c.Restart(t.Context()); !errors.Is(err, errExternal) {
		t.Errorf("restarting somebody else's cluster: %v", err)
	}

	bystander := newTopic(t, host, 1)
	t.Run("names", func(t *testing.T) {
		topic, group := newTopic(t, c, 1), c.Name(t, "group")
		for _, more := range []string{topic + "-changelog", group + "-not-a-topic-of-the-group"} {
			if err := c.CreateTopic(t.Context(), more, 1, nil); err != nil {
				t.Fatal(err)
			}
		}
		var offsets kadm.Offsets
		offsets.Add(kadm.Offset{Topic: topic, At: 1, LeaderEpoch: -1})
		if err := c.Admin().CommitAllOffsets(t.Context(), group, offsets); err != nil {
			t.Fatal(err)
		}
	})
	topics, err := host.Admin().ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := topics.Names(); !slices.Equal(got, []string{bystander}) {
		t.Errorf("topics left after the test: %v, want %s", got, bystander)
	}
	groups, err := host.Admin().ListGroups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := groups.Groups(); len(got) > 0 {
		t.Errorf("groups left after the test: %v", got)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if !reachable(host.Brokers()[0]) {
		t.Error("closing it took somebody else's cluster down")
	}
}

func TestExternalClusterMustBeUsable(t *testing.T) {
	for value, want := range map[string]string{"localhost": envBrokers, "a:1,,b:2": envBrokers} {
		t.Setenv(envBrokers, value)
		if _, err := Start(t.Context(), KindKafka, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s=%s: %v", envBrokers, value, err)
		}
	}
	t.Setenv(envBrokers, "127.0.0.1:1")
	o := Options{Settings: map[string]string{"message.max.bytes": "1"}}
	if _, err := Start(t.Context(), KindKafka, o); err == nil || !strings.Contains(err.Error(), "Options.Own") {
		t.Errorf("settings for somebody else's cluster: %v", err)
	}
}

func TestName(t *testing.T) {
	c := &Cluster{node: &embeddedNode{}}
	t.Run("With /Strange, characters__and ünïcode", func(t *testing.T) {
		a, b := c.Name(t, "My_Topic."), c.Name(t, "My_Topic.")
		if a == b || len(a) != len(b) {
			t.Errorf("not two names of one form: %s and %s", a, b)
		}
		const want = "name-with-strange-characters-and-n-code-my-topic-"
		if !strings.HasPrefix(a, want) {
			t.Errorf("got %s, want %s...", a, want)
		}
	})
	t.Run(strings.Repeat("long", 100), func(t *testing.T) {
		if name := c.Name(t, "in"); len(name) > 80 || !strings.Contains(name, "-in-") {
			t.Errorf("%s has %d characters", name, len(name))
		}
	})
}
