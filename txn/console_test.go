package txn_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/security"
)

// consoleDocument is what the console of an App shows.
type consoleDocument struct {
	Topology  graph.Description
	Instance  string
	Alone     string
	Instances []consoleInstance
	Planned   []struct {
		ID           graph.TaskID
		Instance, To string
	}
	Settings []struct{ Name, Value string }
	Stores   []string
}

// consoleInstance is an instance in it.
type consoleInstance struct {
	Instance, State, Why string
	Since                time.Time
	LeftAt               time.Time `json:"left_at"`
	Taken                int64     `json:"taken_ms"`
	Report               *struct {
		Status   txn.Status
		NotReady []string `json:"not_ready"`
		Started  time.Time
		Counts   struct {
			Commits uint64
			Records []struct {
				Task, Topic string
				Count       float64
			}
		}
	}
}

// shownBy returns what the console of an App shows.
func shownBy(t *testing.T, app *txn.App) (document consoleDocument, text string) {
	t.Helper()
	status, text := get(app, "/console/data")
	if status != http.StatusOK {
		t.Fatalf("/console/data answers %d: %s", status, text)
	}
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		t.Fatalf("/console/data answers %s: %v", text, err)
	}
	return document, text
}

// consoleOf returns what the console of an App shows that does not run.
func consoleOf(t *testing.T, cfg txn.Config) (document consoleDocument, text string) {
	t.Helper()
	cfg.Brokers, cfg.StateDir = []string{"localhost:9092"}, "state"
	app, err := txn.New(countTopology(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return shownBy(t, app)
}

func TestConsoleBeforeRun(t *testing.T) {
	shown, _ := consoleOf(t, txn.Config{})
	if len(shown.Instances) != 1 || shown.Instances[0].State != "here" || !strings.Contains(shown.Alone, "not at work in the group") {
		t.Fatalf("the console shows %+v (%s), want one instance and why it is alone", shown.Instances, shown.Alone)
	}
	report := shown.Instances[0].Report
	if want := countTopology(t).Description(); shown.Topology.Fingerprint != want.Fingerprint || report.Status.State != txn.Created {
		t.Errorf("the console shows %s in state %s, want %s in state created", shown.Topology.Fingerprint, report.Status.State, want.Fingerprint)
	}
	if len(report.NotReady) != 1 || !strings.Contains(report.NotReady[0], "created") {
		t.Errorf("not ready because of %q, want that the application is created", report.NotReady)
	}
}

// TestConsoleShowsEachSetting: a field of Config that is added is shown, or listed here with the
// reason.
func TestConsoleShowsEachSetting(t *testing.T) {
	elsewhere := map[string]string{
		"Application": "in the head of the page", "Instance": "in the head of the page",
		"Dialer": "a function", "Logger": "an object",
	}
	shown, _ := consoleOf(t, txn.Config{})
	var names []string
	for _, s := range shown.Settings {
		names = append(names, s.Name)
		if s.Value == "" {
			t.Errorf("%s has no value", s.Name)
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[txn.Config]()) {
		if f.IsExported() && elsewhere[f.Name] == "" && !slices.Contains(names, f.Name) {
			t.Errorf("Config.%s is not shown", f.Name)
		}
	}
}

func TestConsoleShowsSettingsInWords(t *testing.T) {
	shown, _ := consoleOf(t, txn.Config{
		OrderWaitMax: -1, CacheBytes: 3 << 30, QueueBytesMax: 65<<10 + 1, InternalReplicas: 3, Mode: topology.Replay, Application: "count-again",
		Rack: "zone-a", Standbys: 1, Security: security.Config{TLS: security.TLS{Enabled: true}},
	})
	got := map[string]string{}
	for _, s := range shown.Settings {
		got[s.Name] = s.Value
	}
	for name, want := range map[string]string{
		"OrderWaitMax": "no limit", "CacheBytes": "3 GiB", "QueueBytesMax": "66561 bytes", "RoundBytesMax": "16 MiB", "InternalReplicas": "3",
		"InternalMinInSync": "the cluster's", "Rack": "zone-a", "Standbys": "1", "Security": "TLS, no SASL", "Mode": "REPLAY",
		"Peers": "127.0.0.1:0, no authentication", "ModesBefore": "none", "CommitIntervalMax": "100ms",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}

// TestConsoleShowsNoSecret: neither secrets nor names of users, also not of files that hold one.
func TestConsoleShowsNoSecret(t *testing.T) {
	_, text := consoleOf(t, txn.Config{
		Security: security.Config{SASL: security.SASL{Mechanism: security.ScramSHA512, User: "sesame-user", Password: security.NewSecret("sesame-word")}},
		Peers:    txn.Peers{Listen: "127.0.0.1:0", SecretFile: "sesame-file"},
	})
	if strings.Contains(text, "sesame") {
		t.Errorf("the console shows a secret: %s", text)
	}
	if !strings.Contains(text, "plain TCP, SCRAM-SHA-512") || !strings.Contains(text, "shared secret") {
		t.Errorf("the console does not show how the secrets are used: %s", text)
	}
}
