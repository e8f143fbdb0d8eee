package txn_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// canary is planted in keys, values and headers of records, in keys of state, in errors and in
// panics.
const canary = "canary-7f3a"

// safeBuffer collects logs of many goroutines.
type safeBuffer struct {
	sync.Mutex
	bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.Write(p)
}

// String returns what was written. That of the buffer inside would not lock.
func (b *safeBuffer) String() string {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.String()
}

// spilling fails in all ways there are, each time with the record in hand and the canary in the
// error.
func spilling(t *testing.T) *topology.Topology {
	t.Helper()
	retry := topology.Policy{Action: topology.Retry, Attempts: 2, Backoff: time.Millisecond, BackoffMax: time.Millisecond, Then: topology.DeadLetter}
	b := topology.NewBuilder("spilling", topology.DeadLetters("dead"), topology.OnError(topology.Transient, retry))
	in := topology.From(b, topology.Topic("in", schemas.String(), schemas.JSON[struct{ Do, Text string }]()))
	kept := topology.KeyValueStore("kept", schemas.String(), schemas.String())
	node := topology.Stateful(in, "spill", kept)
	out := topology.Outlet[string, string](node, "out")
	node.Process(func(s *topology.Setup) (topology.Handler[string, struct{ Do, Text string }], error) {
		kept, emit := kept.In(s), out.In(s)
		return func(c *topology.Context, r topology.Record[string, struct{ Do, Text string }]) error {
			quoting := fmt.Errorf("no good: %s %s", r.Key, r.Value.Text)
			switch r.Value.Do {
			case "panic":
				panic(quoting)
			case "panic with text":
				panic(r.Value.Text)
			case "plain":
				return quoting
			case "validation":
				return topology.Fail(topology.Validation, quoting)
			case "conflict":
				return topology.Fail(topology.Conflict, quoting)
			case "retry":
				return topology.Fail(topology.Transient, quoting)
			case "stop":
				return topology.Fail(topology.Fatal, quoting)
			}
			if err := kept.Put(r.Key, r.Value.Text); err != nil {
				return err
			}
			return emit(c, topology.Record[string, string]{Key: r.Key, Value: r.Value.Text, Timestamp: r.Timestamp})
		}, nil
	})
	out.Stream().Into(topology.Topic("out", schemas.String(), schemas.String()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// TestNoPayloadIsTold lets records with a canary fail in every way, at debug level, with refused
// requests, a restart and a restore. It looks for the canary in all outputs of the process:
//
//   - logs of the runtime, of the Kafka clients and of the databases,
//   - metrics, status, health and readiness, over TCP and the control socket,
//   - the error that Run returns.
//
// It runs on real sockets because of TCP and the control socket.
func TestNoPayloadIsTold(t *testing.T) {
	b := newRealBroker(t, 2, "in", "out", "dead")
	var requests atomic.Int64
	for _, key := range []int16{keyProduce, keyTxnOffsetCommit} {
		b.ControlKey(key, func(req kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			if !transactional(req) || requests.Add(1)%7 != 3 {
				return nil, nil, false
			}
			return refuse(req, kerr.UnknownServerError.Code), nil, true
		})
	}
	var log safeBuffer
	cfg := b.config(txn.Config{
		StateDir: t.TempDir(), Workers: 1, HTTP: "127.0.0.1:0", CommitIntervalMax: 10 * time.Millisecond,
		Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	say := func(partition int32, do string) {
		value, err := json.Marshal(map[string]string{"Do": do, "Text": canary + "-value"})
		if err != nil {
			t.Fatal(err)
		}
		b.produce(t, &kgo.Record{
			Topic: "in", Partition: partition, Key: []byte(canary + "-key-" + do), Value: value,
			Headers: []kgo.RecordHeader{{Key: canary + "-header", Value: []byte(canary)}},
		})
	}
	told := &strings.Builder{}
	listen := func(app *txn.App) {
		for _, page := range []string{"/metrics", "/healthz", "/readyz", "/nothing"} {
			told.WriteString(overHTTP(t, app, page))
		}
		status, err := json.Marshal(app.Status())
		if err != nil {
			t.Fatal(err)
		}
		told.Write(status)
		over, err := txn.InstanceStatus(t.Context(), cfg.StateDir)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(told, "%+v", over)
	}

	app, stop := start(t, spilling(t), cfg)
	waitFor(t, "the endpoint", func() bool { return app.Status().HTTP != "" })
	failing := []string{"panic", "panic with text", "plain", "validation", "conflict", "retry"}
	for _, do := range append(failing, "keep", "keep more") {
		say(1, do)
	}
	b.produce(t, &kgo.Record{Topic: "in", Partition: 1, Key: []byte(canary), Value: []byte(canary + " is no JSON")})
	b.produce(t, &kgo.Record{Topic: "in", Partition: 1, Key: []byte(canary + "\xff"), Value: []byte("{}")})
	letters := int64(len(failing)) + 2
	waitFor(t, "the records to be committed", func() bool { return app.Status().Totals.Records == letters+2 })
	if got := app.Status().Totals.DeadLetters; got != letters {
		t.Errorf("%d records are dead letters, want %d", got, letters)
	}
	listen(app)
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	again, stopAgain := start(t, spilling(t), cfg)
	say(0, "stop")
	waitFor(t, "the task to stop", func() bool {
		status, _ := get(again, "/readyz")
		return status == http.StatusServiceUnavailable && scrape(t, again)[`onceward_tasks{state="stopped"}`] == 1
	})
	listen(again)
	err := stopAgain()
	if !errors.Is(err, txn.ErrStopped) {
		t.Errorf("Run returns %v, want ErrStopped", err)
	}

	text := log.String()
	for _, needed := range []string{"record dead-lettered", "will be tried again", "task stopped", "commit round", `"msg":"pebble"`, "produced"} {
		if !strings.Contains(text, needed) {
			t.Errorf("the log has no %q: the test listens to too little", needed)
		}
	}
	for where, said := range map[string]string{"log": text, "answers": told.String()} {
		for _, form := range []string{canary, hex.EncodeToString([]byte(canary)), fmt.Sprint([]byte(canary))} {
			if at := strings.Index(said, form); at >= 0 {
				t.Errorf("the canary is in the %s: ...%s...", where, said[max(at-300, 0):min(at+100, len(said))])
			}
		}
	}
	// The error of Run is for the program, whose own errors it wraps; its text is what an operator
	// sees.
	if strings.Contains(fmt.Sprint(err), canary) {
		t.Errorf("the canary is in the error of Run: %v", err)
	}
}

// overHTTP asks the endpoint of an application for a page.
func overHTTP(t *testing.T, app *txn.App, page string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + app.Status().HTTP + page)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
