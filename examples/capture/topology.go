package capture

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/processors/envelope"
	"github.com/onceward/onceward/processors/evidence"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Settings are what the application has to know beside what every application has: that is flags of
// the command.
type Settings struct {
	// Requests is the topic of the requests, Prefix the beginning of the names of all other topics.
	Requests, Prefix string
	// Gateway is the URL of the gateway.
	Gateway string
	// Timeout is how long a call may take; 0 is 4 s.
	Timeout time.Duration
}

// The variables that [FromEnvironment] reads.
const (
	EnvRequests = "CAPTURE_REQUESTS"
	EnvPrefix   = "CAPTURE_PREFIX"
	EnvGateway  = "CAPTURE_GATEWAY"
	EnvTimeout  = "CAPTURE_TIMEOUT"
)

// FromEnvironment returns the settings that are in the environment, with defaults for those that
// are not.
func FromEnvironment() (Settings, error) {
	s := Settings{
		Requests: cmp.Or(os.Getenv(EnvRequests), "capture-requests"),
		Prefix:   cmp.Or(os.Getenv(EnvPrefix), "capture-"),
		Gateway:  cmp.Or(os.Getenv(EnvGateway), "http://127.0.0.1:8089"),
	}
	var err error
	if text := os.Getenv(EnvTimeout); text != "" {
		if s.Timeout, err = time.ParseDuration(text); err != nil {
			err = fmt.Errorf("%s: %w", EnvTimeout, err)
		}
	}
	return s, err
}

// The names of the topics behind the prefix.
const (
	// TopicCaptured and TopicRefused have the end of each capture, and the answers to those who
	// have asked for it again.
	TopicCaptured = "captured"
	TopicRefused  = "refused"
	// TopicHeld has what was asked for in a mode without calls.
	TopicHeld = "held"
	// TopicPeople has what only people can find out, and TopicResolutions what they have found out.
	TopicPeople      = "people"
	TopicResolutions = "resolutions"
	// TopicAudit has every decision, TopicDead every record that has failed.
	TopicAudit = "audit"
	TopicDead  = "dead"
)

// Topics are the names of all topics behind the prefix.
var Topics = []string{TopicCaptured, TopicRefused, TopicHeld, TopicPeople, TopicResolutions, TopicAudit, TopicDead}

// The names of the nodes that decide.
const (
	nodeInbox   = "inbox"
	nodeCapture = "capture"
	nodePeople  = "people"
)

// How calls are made. A call that was claimed by a process that was killed is looked up after the
// claim and the grace.
const (
	timeout     = 4 * time.Second
	grace       = time.Second
	attempts    = 6
	pauseFirst  = 50 * time.Millisecond
	pauseLatest = 500 * time.Millisecond
)

// Topology returns the application.
func (s Settings) Topology() (*topology.Topology, error) {
	b, gateway := topology.NewBuilder("capture", topology.DeadLetters(s.Prefix+TopicDead)), newProvider(s.Gateway)
	s.perform(b, byCapture(s.once(s.valid(b))), gateway, effect.Lookup(gateway.find))
	return b.Build()
}

// valid are the requests. What is none is a dead letter.
func (s Settings) valid(b *topology.Builder) topology.Stream[string, Capture] {
	return topology.From(b, topology.Topic(s.Requests, schemas.String(), schemas.JSON[Capture]())).Peek("envelope", validate)
}

// once are the messages without their copies, wherever and under whatever key these come. Another
// message under the same id is a dead letter.
func (s Settings) once(messages topology.Stream[string, Capture]) topology.Stream[string, Capture] {
	once := inbox.Dedupe(messages, nodeInbox, envelope.MessageID[string, Capture], inbox.Forever(),
		inbox.Globally(schemas.String(), schemas.JSON[Capture]()), inbox.StayByID())
	s.record(once.Decisions(), nodeInbox)
	return once.Accepted()
}

// byCapture brings together the requests for one capture from all callers. The ledger of calls is
// per partition, and finds the earlier requests there.
func byCapture(messages topology.Stream[string, Capture]) topology.Stream[string, Capture] {
	keyed := topology.SelectKey(messages, "capture-id", func(r topology.Record[string, Capture]) (string, error) { return r.Value.ID, nil })
	return topology.RepartitionWith(keyed, "captures", schemas.String(), schemas.JSON[Capture]())
}

// perform has the gateway called once for each capture. Who asks again is answered; who asks for
// something else under the same id has a dead letter. unknown says how to find out about a call
// that was not answered.
func (s Settings) perform(b *topology.Builder, requests topology.Stream[string, Capture], gateway provider, unknown effect.Option) {
	timeout := cmp.Or(s.Timeout, timeout)
	claim := 2*timeout + time.Second // as short as it may be
	e := effect.Perform(requests, nodeCapture, func(r topology.Record[string, Capture]) (effect.Request, error) {
		payload, err := json.Marshal(r.Value)
		return effect.Request{ID: r.Value.ID, Type: "capture", Target: "gateway", Payload: payload}, err
	}, gateway.capture, unknown,
		effect.Timeout(timeout), effect.Claims(claim, grace), effect.Retry(attempts, pauseFirst, pauseLatest))
	e.Completed().Into(s.results(TopicCaptured))
	e.Failed().Into(s.results(TopicRefused))
	e.Suppressed().Into(s.results(TopicHeld))
	e.Unknown().Into(s.results(TopicPeople))
	said := topology.From(b, topology.Topic(s.Prefix+TopicResolutions, schemas.String(), schemas.JSON[effect.Resolution]()))
	people := effect.Resolve(e, said, nodePeople)
	s.record(e.Requests(), nodeCapture)
	s.record(e.Outcomes(), nodeCapture+"-outcomes")
	s.record(people.Decisions(), nodePeople)
}

// record writes decisions down.
func (s Settings) record(decisions topology.Stream[[]byte, decision.Decision], name string) {
	evidence.Record(decisions, name+"-audit", evidence.Topic(s.Prefix+TopicAudit))
}

func (s Settings) results(topic string) topology.TopicOf[string, effect.Result] {
	return topology.Topic(s.Prefix+topic, schemas.String(), schemas.JSON[effect.Result]())
}
