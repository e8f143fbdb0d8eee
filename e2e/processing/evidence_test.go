//go:build unix

package processing

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
)

// paymentsFile counts the payments of an account, each once. The names of its topics are put in.
const paymentsFile = `
name: payments
dead_letters: %s
evidence: %s
source: {topic: %s}
steps:
  - ledger: {name: balances, id: event.id, amounts: {cents: event.cents}, into: %s}
`

// The values of message.timestamp.type.
const (
	createTime    = "CreateTime"
	logAppendTime = "LogAppendTime"
)

// TestEvidenceHasTheTimesOfRecords is requirement J1. The time of the source is always known. The
// append time of a record is known if its topic has the broker's time. The time of the decision is
// known if the topic of evidence has it. An unknown time is not shown, and not replaced by another
// time.
func TestEvidenceHasTheTimesOfRecords(t *testing.T) {
	t.Parallel()
	c := cluster.Kafka(t) // the embedded broker does not give records its own time
	program := instance.Program(t, commandProgram)
	for _, source := range []string{createTime, logAppendTime} {
		for _, audit := range []string{createTime, logAppendTime} {
			t.Run("source="+source+",audit="+audit, func(t *testing.T) { explainTimes(t, c, program, source, audit) })
		}
	}
}

func explainTimes(t *testing.T, c *cluster.Cluster, program, source, audit string) {
	t.Helper()
	in, evidence, dead, out := c.Name(t, "in"), c.Name(t, "audit"), c.Name(t, "dead"), c.Name(t, "out")
	for topic, kind := range map[string]string{in: source, evidence: audit, dead: createTime, out: createTime} {
		if err := c.CreateTopic(t.Context(), topic, 1, map[string]*string{"message.timestamp.type": &kind}); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	told := began.Add(-time.Hour)
	paid := &kgo.Record{Topic: in, Key: []byte("acct-1"), Value: []byte(`{"id": "p1", "cents": 5}`), Timestamp: told}
	if err := c.Client(t).ProduceSync(t.Context(), paid).FirstErr(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "payments.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, paymentsFile, dead, evidence, in, out), 0o600); err != nil {
		t.Fatal(err)
	}
	brokers := strings.Join(c.Brokers(), ",")
	run := exec.Command(program, "run", "-f", file, "--brokers", brokers, "--state-dir", filepath.Join(t.TempDir(), "state"),
		"--application", c.Name(t, "app"))
	p := instance.Launch(t, run, instance.NewLog(t, "the pipeline"))
	p.Await("the decision", func() bool { return len(c.Records(t, evidence)) > 0 })
	p.Stop()
	ended := time.Now()

	explain := func(output string) []byte {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, "explain", "--row", "acct-1", "--audit", evidence, "--brokers", brokers,
			"--output", output)
		shown, err := cmd.Output()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("explain ended with %v: %s", err, exit.Stderr)
		}
		if err != nil {
			t.Fatal(err)
		}
		return shown
	}
	var shown struct {
		Decisions []struct {
			Outcome    string     `json:"outcome"`
			Time       int64      `json:"time"`
			AppendTime int64      `json:"append_time"`
			Written    *time.Time `json:"written"`
		} `json:"decisions"`
	}
	if err := json.Unmarshal(explain("json"), &shown); err != nil {
		t.Fatal(err)
	}
	if len(shown.Decisions) != 1 || shown.Decisions[0].Outcome != "accepted" {
		t.Fatalf("the decisions are %+v", shown.Decisions)
	}
	d := shown.Decisions[0]
	// The broker may be on a machine with another clock: an hour is what tells the times apart.
	meanwhile := func(at time.Time) bool {
		return at.After(began.Add(-10*time.Minute)) && at.Before(ended.Add(10*time.Minute))
	}
	switch source {
	case createTime:
		if d.Time != told.UnixMilli() || d.AppendTime != 0 {
			t.Errorf("the record is of %d, appended %d, want %d and nothing", d.Time, d.AppendTime, told.UnixMilli())
		}
	default: // the broker's time takes the place of the producer's
		if d.Time != d.AppendTime || !meanwhile(time.UnixMilli(d.AppendTime)) {
			t.Errorf("the record is of %d, appended %d, want both between %s and %s", d.Time, d.AppendTime, began, ended)
		}
	}
	if audit == createTime && d.Written != nil {
		t.Errorf("it was processed %s, which no record says", d.Written)
	}
	if audit == logAppendTime && (d.Written == nil || !meanwhile(*d.Written)) {
		t.Errorf("it was processed %v, want a time between %s and %s", d.Written, began, ended)
	}
	text := string(explain("text"))
	for word, want := range map[string]bool{
		", appended ": source == logAppendTime, ", processed ": audit == logAppendTime,
		"# " + evidence + " does not say when it was decided": audit == createTime,
	} {
		if strings.Contains(text, word) != want {
			t.Errorf("the text has %q: %t, want %t:\n%s", word, !want, want, text)
		}
	}
}
