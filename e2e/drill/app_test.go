package drill_test

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"time"

	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/processors/envelope"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// settings are those of an application in a process of its own.
type settings struct {
	Brokers                             []string
	Application, Instance               string
	StateDir, Gateway                   string
	Mode                                string
	In, Captured, Refused, Replay, Dead string
	// Socket is where the metrics are.
	Socket string
	// Blind has calls made again whose outcome is not known, which this gateway does not bear.
	Blind bool
}

// instance are the settings of one instance.
func (s settings) instance(name string) settings {
	s.Instance, s.StateDir, s.Socket = name, filepath.Join(s.StateDir, name), s.Socket+"-"+name
	return s
}

// Capture is a request. What identifies it as a message, and as a part of a story, is in its headers: the envelope.
type Capture struct {
	ID     string `json:"id"`
	Amount int64  `json:"amount"`
}

func build(s settings) (*topology.Topology, error) {
	b := topology.NewBuilder("drill", topology.DeadLetters(s.Dead))
	gateway := caller{s.Gateway}
	requests := topology.From(b, topology.Topic(s.In, schemas.String(), schemas.JSON[Capture]()))
	valid := requests.Peek("envelope", validate)
	unknown := effect.Lookup(gateway.find)
	if s.Blind {
		unknown = effect.Repeatable()
	}
	e := effect.Perform(valid, "capture", func(r topology.Record[string, Capture]) (effect.Request, error) {
		payload, err := json.Marshal(r.Value)
		return effect.Request{ID: r.Value.ID, Type: "capture", Target: "gateway", Payload: payload}, err
	}, gateway.capture, unknown, effect.Timeout(500*time.Millisecond),
		effect.Claims(3*time.Second, time.Second), effect.Retry(10, 50*time.Millisecond, time.Second))
	result := func(name string) topology.TopicOf[string, effect.Result] {
		return topology.Topic(name, schemas.String(), schemas.JSON[effect.Result]())
	}
	e.Completed().Into(result(s.Captured))
	e.Failed().Into(result(s.Refused))
	e.Suppressed().Into(result(s.Replay))
	return b.Build()
}

const (
	headerSchema = "schema-version"
	schema       = 1

	errNoMessage     = schemas.Reason("the envelope has no message id")
	errNoCorrelation = schemas.Reason("the envelope has no correlation id")
	errSchema        = schemas.Reason("the schema version is not 1")
	errNoCapture     = schemas.Reason("there is no capture request id")
)

// validate refuses what is no request.
func validate(r topology.Record[string, Capture]) error {
	ids := envelope.Of(r)
	version, _ := r.Header(headerSchema)
	switch {
	case ids.MessageID == "":
		return topology.Fail(topology.Validation, errNoMessage)
	case ids.CorrelationID == "":
		return topology.Fail(topology.Validation, errNoCorrelation)
	case string(version) != strconv.Itoa(schema):
		return topology.Fail(topology.Validation, errSchema)
	case r.Value.ID == "":
		return topology.Fail(topology.Validation, errNoCapture)
	}
	return nil
}

// run is the application.
func run(s settings) error {
	t, err := build(s)
	if err != nil {
		return err
	}
	mode, err := topology.ParseMode(s.Mode)
	if err != nil {
		return err
	}
	app, err := txn.New(t, txn.Config{
		Brokers: s.Brokers, Application: s.Application, StateDir: s.StateDir, Instance: s.Instance, Mode: mode,
		SessionTimeout: 10 * time.Second, HTTP: "unix:" + s.Socket,
	})
	if err != nil {
		return err
	}
	ctx, stop := measure.UntilTold()
	defer stop()
	return app.Run(ctx)
}
