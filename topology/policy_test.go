package topology_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// TestRetryThenDeadLetter: what fails for a while is tried again after pauses that grow, and in the
// end is a dead letter. Row of the failure matrix: failing dependency.
func TestRetryThenDeadLetter(t *testing.T) {
	policy := topology.Policy{
		Action: topology.Retry, Attempts: 4, Then: topology.DeadLetter,
		Backoff: 100 * time.Millisecond, BackoffMax: 250 * time.Millisecond,
	}
	built := fanOut(t, topology.DeadLetters("dead"), topology.OnError(topology.Transient, policy))
	k := openTask(t, built, fanTask, baseConfig())
	in := k.input("words", []byte("a"), []byte("transient"))
	for i, pause := range []time.Duration{100, 200, 250} {
		in.Attempt = i + 1
		v := want(t, k.graph.Process(in), topology.Retry)
		if v.Backoff != pause*time.Millisecond || v.Failure.Attempt != in.Attempt ||
			len(v.Outputs)+len(v.Counts) != 0 {
			t.Errorf("attempt %d: backoff %s, want %d ms; failure %v, %d outputs, %d counts",
				in.Attempt, v.Backoff, pause, v.Failure, len(v.Outputs), len(v.Counts))
		}
	}
	in.Attempt, in.FirstFailure = 4, now.Add(-time.Second)
	v := want(t, k.graph.Process(in), topology.DeadLetter)
	info, err := graph.ParseDeadLetter(v.Outputs[0].Headers)
	if err != nil {
		t.Fatal(err)
	}
	if info.Attempts != 4 || !info.FirstFailure.Equal(now.Add(-time.Second)) || !info.LastFailure.Equal(now) {
		t.Errorf("the dead letter says %d attempts from %s to %s",
			info.Attempts, info.FirstFailure, info.LastFailure)
	}
}

func TestStopWithoutDeadLetterTopic(t *testing.T) {
	k := openTask(t, fanOut(t), fanTask, baseConfig())
	v := want(t, k.words("a", "poison"), topology.Stop)
	if !strings.Contains(v.Failure.Error(), "no dead-letter topic") {
		t.Errorf("the failure does not say why the task stops: %v", v.Failure)
	}
	if len(v.Outputs)+len(v.Counts) != 0 {
		t.Errorf("a stop has %d outputs and %d counts", len(v.Outputs), len(v.Counts))
	}
}

// TestPolicyOfNode: the policy of the failing node is stronger than that of the topology, which is
// stronger than the default.
func TestPolicyOfNode(t *testing.T) {
	stop := topology.Policy{Action: topology.Stop}
	b := topology.NewBuilder("policies", topology.DeadLetters("dead"),
		topology.OnError(topology.Config, topology.Policy{Action: topology.DeadLetter}))
	source := topology.From(b, wordsTopic, topology.OnError(topology.Poison, stop))
	topology.MapValuesWithRecord(source.Filter("odd", isKey("odd")), "strict", judge,
		topology.OnError(topology.Validation, stop)).Into(outTopic)
	topology.MapValuesWithRecord(source.Filter("even", isKey("even")), "mild", judge).Into(secondTopic)
	n := topology.Stateful(source.Filter("node", isKey("node")), "own").OnError(topology.Conflict, stop)
	n.Process(func(*topology.Setup) (topology.Handler[string, string], error) {
		return func(c *topology.Context, r word) error { _, err := judge(r); return err }, nil
	})
	k := openTask(t, mustBuild(t, b), fanTask, baseConfig())
	want(t, k.words("odd", "validation"), topology.Stop)
	want(t, k.words("even", "validation"), topology.DeadLetter)
	want(t, k.words("odd", "config"), topology.DeadLetter)
	want(t, k.words("node", "conflict"), topology.Stop)
	want(t, k.words("odd", "conflict"), topology.DeadLetter)
	want(t, k.graph.Process(k.input("words", nil, []byte("x"))), topology.Stop)
}

func isKey(key string) func(word) (bool, error) {
	return func(r word) (bool, error) { return r.Key == key, nil }
}

// TestStopNamesThePolicy: the reason of a stop says that a policy has stopped the task, and not the
// lack of a dead-letter topic.
func TestStopNamesThePolicy(t *testing.T) {
	for want, policy := range map[string]topology.Policy{
		"the policy of class transient is Stop":                 {Action: topology.Stop},
		"the policy of class transient says so after attempt 2": {Action: topology.Retry, Attempts: 2, Backoff: 1, BackoffMax: 1, Then: topology.Stop},
	} {
		k := openTask(t, dying(t, topology.OnError(topology.Transient, policy)), fanTask, baseConfig())
		in := k.input("words", []byte("k"), []byte("transient"))
		v := k.graph.Process(in)
		for v.Action == topology.Retry {
			in.Attempt++
			v = k.graph.Process(in)
		}
		if v.Action != topology.Stop || !strings.HasSuffix(v.Failure.Error(), "; the task stops because "+want) {
			t.Errorf("%s: %v", v.Action, v.Failure)
		}
	}
}

// TestLongestBackoff: doubling does not overflow.
func TestLongestBackoff(t *testing.T) {
	policy := topology.Policy{
		Action: topology.Retry, Attempts: 1000, Then: topology.Stop,
		Backoff: 1, BackoffMax: math.MaxInt64,
	}
	k := openTask(t, dying(t, topology.OnError(topology.Transient, policy)), fanTask, baseConfig())
	in := k.input("words", []byte("k"), []byte("transient"))
	pause := time.Duration(0)
	for in.Attempt = 1; in.Attempt < 200; in.Attempt++ {
		v := want(t, k.graph.Process(in), topology.Retry)
		if v.Backoff < pause {
			t.Fatalf("attempt %d: a pause of %s after one of %s", in.Attempt, v.Backoff, pause)
		}
		pause = v.Backoff
	}
	if pause != math.MaxInt64 {
		t.Errorf("the last pause is %s", pause)
	}
}

// TestDefaultPolicies is requirement G1: the class of an error decides. Each is tried until the
// verdict is no retry any more.
func TestDefaultPolicies(t *testing.T) {
	for class, want := range map[topology.Class]struct {
		attempts int
		action   topology.Action
	}{
		topology.Transient: {10, topology.DeadLetter}, topology.Overload: {20, topology.DeadLetter},
		topology.Conflict: {1, topology.DeadLetter}, topology.Validation: {1, topology.DeadLetter},
		topology.Poison: {1, topology.DeadLetter}, topology.Config: {1, topology.Stop},
		topology.Corruption: {1, topology.Stop}, topology.Fatal: {1, topology.Stop},
	} {
		k := openTask(t, dying(t), fanTask, baseConfig())
		in := k.input("words", []byte("k"), []byte(class.String()))
		v := k.graph.Process(in)
		for v.Action == topology.Retry {
			in.Attempt++
			v = k.graph.Process(in)
		}
		if v.Action != want.action || in.Attempt != want.attempts {
			t.Errorf("%s: %s after %d attempts, want %s after %d",
				class, v.Action, in.Attempt, want.action, want.attempts)
		}
	}
}
