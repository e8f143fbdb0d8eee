package processing

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/onceward/onceward/processors/deadletter"
	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/processors/evidence"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/processors/transition"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// Settings are one instance of the pipeline.
type Settings struct {
	Brokers     []string
	Application string
	Instance    string
	StateDir    string
	// Prefix is that of the names of the topics.
	Prefix string
	// Inputs is the prefix of the names of the topics that are read, if that is another one.
	Inputs string
	// Mode is LIVE if it is empty.
	Mode string
	// Gateway is the URL of the provider of payouts, Post that of the one of notices, and World the
	// path of a file that says what is wrong with the world: down or closed.
	Gateway, Post, World string
	// SessionTimeout and TransactionTimeout are those of txn.Config.
	SessionTimeout, TransactionTimeout time.Duration
	// Broken breaks the pipeline on purpose.
	Broken Broken

	// provider, post and world replace Gateway, Post and World within one process.
	provider, post provider
	world          func() string
	// seen is what a broken pipeline keeps beside its state.
	seen *memory
}

// The names of the topics behind the prefix.
const (
	TopicEvents    = "events"
	TopicCommands  = "commands"
	TopicFindings  = "findings"
	TopicLate      = "late"
	TopicArchive   = "archive"
	TopicAccounts  = "accounts"
	TopicAbandoned = "abandoned"
	TopicRepairs   = "repairs"
	TopicFacts     = "facts"
	TopicRefused   = "refused"
	TopicAgain     = "again"
	TopicStandings = "standings"
	TopicChosen    = "chosen"
	TopicAnswers   = "answers"
	TopicBalances  = "balances"
	TopicFlows     = "flows"
	TopicDisputed  = "disputed"
	TopicPaid      = "paid"
	TopicHeld      = "held"
	TopicNoticed   = "noticed"
	TopicDoubted   = "doubted"
	TopicAudit     = "audit"
	TopicDead      = "dead"
)

// inputs are all topics that are read, and outputs those that are written to.
var (
	inputs  = []string{TopicEvents, TopicCommands, TopicFindings}
	outputs = []string{
		TopicLate, TopicArchive, TopicAccounts, TopicAbandoned, TopicRepairs, TopicFacts, TopicRefused, TopicAgain, TopicStandings, TopicChosen,
		TopicAnswers, TopicBalances, TopicFlows, TopicDisputed, TopicPaid, TopicHeld, TopicNoticed, TopicDoubted, TopicAudit, TopicDead,
	}
)

// Partitions is how many every topic has.
const Partitions = 2

// Retention is for how long the inbox knows an event again.
const Retention = time.Hour

// The names of the nodes.
const (
	nodeDoor      = "door"
	nodeInbox     = "inbox"
	nodeAccounts  = "accounts"
	nodeLifecycle = "lifecycle"
	nodeOrders    = "orders"
	nodeStandings = "standings"
	nodeNext      = "standings-next"
	nodeChoice    = "choice"
	nodeBalances  = "balances"
	nodeFlows     = "flows"
	nodePayouts   = "payouts"
	nodeNotices   = "notices"
	nodeFindings  = "findings"
	nodeWorld     = "world"
)

// frail accounts are those that what is wrong with the world is about.
const frail = "frail"

// parts are the processors of a pipeline, whose stores tests read.
type parts struct {
	inbox inbox.Inbox[string, Event]
	// queue is what a broken pipeline has in the place of the queue of the archive.
	queue    *memory
	accounts projection.Projection[string, Event, Account]
	// waits says that facts wait in accounts for those before them.
	waits     bool
	lifecycle transition.Guarded[string, Event, Standing]
	orders    inbox.Inbox[string, Event]
	standings projection.Projection[string, Event, string]
	next      projection.Projection[string, Event, string]
	choice    projection.Choice[string, string]
	balances  ledger.Ledger[string, Event]
	flows     ledger.Ledger[ledger.Window[string], Event]
	payouts   effect.Effects[string, Event]
	notices   effect.Effects[string, Event]
}

type event = topology.Record[string, Event]

// Topology returns the topology.
func (s Settings) Topology() (*topology.Topology, error) {
	t, _, err := s.build()
	return t, err
}

func (s Settings) build() (*topology.Topology, parts, error) {
	b := topology.NewBuilder("pipeline", topology.DeadLetters(s.Prefix+TopicDead))
	audit := evidence.Topic(s.Prefix + TopicAudit)
	record := func(name string, decisions topology.Stream[[]byte, decision.Decision]) {
		evidence.Record(decisions, name+"-audit", audit)
	}
	var p parts

	// By id: the copies of an event come in any partition.
	events := topicOf[Event](s.inputs(), TopicEvents)
	in := s.breakInbox(s.enter(topology.From(b, events, topology.RetryTopics(delays...))))
	s.dedupe(&p, in)
	p.inbox.Late().Into(topicOf[Event](s.Prefix, TopicLate))
	s.sendConflicts(p.inbox.Conflicts())
	record(nodeInbox, p.inbox.Decisions())

	// By account: the facts in the order of their versions, whatever order they come in.
	byAccount := topology.RepartitionWith(p.inbox.Accepted(), "by-account", schemas.String(), schemas.JSON[Event](), topology.ParkKeys())
	p.accounts = projection.Latest(s.breakEffects(byAccount), nodeAccounts, func(r event) (int64, error) { return r.Value.Version, nil }, s.fold,
		schemas.JSON[Account](), s.gaps()...)
	p.accounts.Changes().Into(topicOf[projection.Row[Account]](s.Prefix, TopicAccounts))
	if p.waits = s.Broken != AcceptsGaps; p.waits {
		p.accounts.Abandoned().Into(topicOf[projection.Abandoned[Event]](s.Prefix, TopicAbandoned))
		s.breakRepairs(p.accounts.Repairs()).Into(topicOf[projection.Repair](s.Prefix, TopicRepairs))
	}
	record(nodeAccounts, p.accounts.Decisions())
	ordered := topology.MapValues(p.accounts.Changes(), "ordered",
		func(v projection.Row[Account]) (Event, error) {
			return v.Value.Last, nil
		})

	p.lifecycle = transition.Guard(ordered, nodeLifecycle, machine, func(r event) (transition.Transition[Standing], error) {
		step := steps[r.Value.Kind]
		return transition.Transition[Standing]{ID: r.Value.ID, From: step[0], To: step[1]}, nil
	}, transition.EmitRefused())
	p.lifecycle.Facts().Into(topicOf[transition.Fact[Standing]](s.Prefix, TopicFacts))
	p.lifecycle.Refused().Into(topicOf[transition.Refused[Standing, Event]](s.Prefix, TopicRefused))
	record(nodeLifecycle, p.lifecycle.Decisions())
	accepted := p.lifecycle.Accepted()

	// An order is paid once, under however many ids it comes. In the order of the versions, so that
	// it is known which of them is the first.
	p.orders = inbox.Dedupe(accepted, nodeOrders, func(r event) (string, error) { return r.Value.ID, nil }, inbox.Forever(), inbox.BusinessKey(order),
		inbox.PayloadWithout("id", "version"), inbox.EmitConflicts())
	again := topicOf[Event](s.Prefix, TopicAgain)
	p.orders.Duplicates().IntoNamed(nodeOrders+"-repeated-sink", again)
	p.orders.Conflicts().IntoNamed(nodeOrders+"-disputed-sink", again)
	record(nodeOrders, p.orders.Decisions())
	fresh := s.breakOrders(p.orders)

	s.stand(&p, fresh)
	record(nodeStandings, p.standings.Decisions())
	record(nodeNext, p.next.Decisions())
	commands := topology.From(b, topology.Topic(s.inputs()+TopicCommands, schemas.Bytes(), schemas.JSON[projection.Command]()))
	s.choose(&p, commands)

	money := fresh.Filter("money", func(r event) (bool, error) { return r.Value.Kind.moves(), nil })
	p.balances = ledger.Post(money, nodeBalances, contribution, ledger.EmitConflicts())
	p.balances.Changes().Into(topicOf[ledger.Balance](s.Prefix, TopicBalances))
	p.balances.Conflicts().Into(topicOf[Event](s.Prefix, TopicDisputed))
	record(nodeBalances, p.balances.Decisions())

	// Each movement counts for the windows of its own day, however late it comes.
	p.flows = ledger.PostWindowed(money, nodeFlows, windows, contribution, ledger.EventTime(s.valued), ledger.EmitConflicts())
	p.flows.Changes().Into(topology.Topic(s.Prefix+TopicFlows, ledger.WindowCodec(schemas.String()), schemas.JSON[ledger.Balance]()))
	topology.SelectKey(p.flows.Conflicts(), nodeFlows+"-account", func(r topology.Record[ledger.Window[string], Event]) (string, error) {
		return r.Key.Key, nil
	}).IntoNamed(nodeFlows+"-disputed-sink", topicOf[Event](s.Prefix, TopicDisputed))
	record(nodeFlows, p.flows.Decisions())

	s.pay(&p, fresh.Filter("payout", func(r event) (bool, error) { return r.Value.Kind == Payout, nil }))
	record(nodePayouts+"-requests", p.payouts.Requests())
	record(nodePayouts+"-outcomes", p.payouts.Outcomes())

	s.notify(&p, fresh.Filter("notice", func(r event) (bool, error) { return r.Value.Kind == Freeze, nil }))
	record(nodeNotices+"-requests", p.notices.Requests())
	record(nodeNotices+"-outcomes", p.notices.Outcomes())
	// Decisions of people are about the calls of one application: a replay makes no calls, and
	// reads no decisions.
	findings := topology.From(b, topicOf[effect.Resolution](s.Prefix, TopicFindings))
	record(nodeFindings, effect.Resolve(p.notices, findings, nodeFindings).Decisions())

	// Behind everything, so that what a failed record has written and emitted shows if it stays.
	accepted.Peek(nodeWorld, s.ask,
		topology.OnError(topology.Transient, topology.Policy{Action: topology.Park, Backoff: pause, BackoffMax: pause}))
	s.breakEnd(accepted)
	t, err := b.Build()
	return t, p, err
}

// pause is how long a parked record waits.
const pause = 20 * time.Millisecond

// delays are how long a record waits that is not let in, the first time and after that.
var delays = []time.Duration{10 * time.Millisecond, 30 * time.Millisecond}

const errDoor = schemas.Reason("the door is not open yet")

// enter lets each event in, some of them at a later attempt. Those of one id are refused equally
// often, so that they come in the order in which they came.
func (s Settings) enter(in topology.Stream[string, Event]) topology.Stream[string, Event] {
	node := topology.Stateful(in, nodeDoor).Copartitioned() // it emits what it gets
	node.OnError(topology.Transient, topology.Policy{Action: topology.Delay, Attempts: 1 + len(delays), Then: topology.DeadLetter})
	inside := topology.Outlet[string, Event](node, "inside")
	node.Process(func(t *topology.Setup) (topology.Handler[string, Event], error) {
		pass := inside.In(t)
		if s.Broken == DelaysInMemory {
			return s.keepOutside(t, pass), nil
		}
		return func(c *topology.Context, r event) error {
			if c.Attempt() <= refusals(r.Value.ID) {
				return topology.Fail(topology.Transient, errDoor)
			}
			return pass(c, r)
		}, nil
	})
	return inside.Stream()
}

// dedupe accepts each event once, and archives expired ids.
func (s Settings) dedupe(p *parts, in topology.Stream[string, Event]) {
	archive := topicOf[inbox.Entry](s.Prefix, TopicArchive)
	options := []inbox.Option{
		inbox.Globally(schemas.String(), schemas.JSON[Event]()), inbox.StayByID(), inbox.Retain(Retention), inbox.TolerateLongerTopics(),
		inbox.EmitConflicts(), inbox.EmitLate(),
	}
	if s.Broken != ArchivesInMemory {
		options = append(options, inbox.Archive(archive))
	}
	p.inbox = inbox.Dedupe(in, nodeInbox, s.id, options...)
	if s.Broken == ArchivesInMemory {
		p.queue = s.seen
		s.archiveInMemory(p.inbox, archive)
	}
}

// refusals is how often the events of an id are not let in.
func refusals(id string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	switch (h.Sum32() >> 8) % 8 {
	case 3:
		return len(delays)
	case 6:
		return 1
	}
	return 0
}

func (s Settings) pay(p *parts, payouts topology.Stream[string, Event]) {
	pays := s.provider
	if pays == nil {
		pays = client{s.Gateway}
	}
	call := func(ctx context.Context, c effect.Call) ([]byte, error) {
		if s.Broken == CallsAtOnce {
			return []byte(receipt), nil
		}
		return pays.pay(ctx, c.IdempotencyKey)
	}
	p.payouts = effect.Perform(s.breakCalls(payouts, pays), nodePayouts, func(r event) (effect.Request, error) {
		payload, err := json.Marshal(r.Value)
		return effect.Request{ID: r.Value.ID, Type: "payout", Target: "gateway", Payload: payload}, err
	}, call, effect.Lookup(pays.find), effect.Timeout(400*time.Millisecond), effect.Claims(1800*time.Millisecond, 200*time.Millisecond),
		effect.Retry(10, pause, 5*pause))
	p.payouts.Completed().Into(topicOf[effect.Result](s.Prefix, TopicPaid))
	p.payouts.Suppressed().Into(topicOf[effect.Result](s.Prefix, TopicHeld))
}

// notify tells people by a provider that cannot be asked for the outcome of a call, so that a
// person has to find out.
func (s Settings) notify(p *parts, freezes topology.Stream[string, Event]) {
	posts := s.post
	if posts == nil {
		posts = client{s.Post}
	}
	options := []effect.Option{
		effect.Timeout(400 * time.Millisecond), effect.Claims(1800*time.Millisecond, 200*time.Millisecond), effect.Retry(10, pause, 5*pause),
	}
	if s.Broken == RepeatsUnknown {
		options = append(options, effect.Repeatable())
	}
	p.notices = effect.Perform(freezes, nodeNotices, func(r event) (effect.Request, error) {
		return effect.Request{ID: r.Value.ID, Type: "notice", Target: "post"}, nil
	}, func(ctx context.Context, c effect.Call) ([]byte, error) { return posts.pay(ctx, c.IdempotencyKey) }, options...)
	noticed := topicOf[effect.Result](s.Prefix, TopicNoticed)
	p.notices.Completed().IntoNamed(nodeNotices+"-completed-sink", noticed)
	p.notices.Suppressed().IntoNamed(nodeNotices+"-suppressed-sink", noticed)
	p.notices.Unknown().Into(topicOf[effect.Result](s.Prefix, TopicDoubted))
}

// stand declares two definitions of the standings.
func (s Settings) stand(p *parts, fresh topology.Stream[string, Event]) {
	version := func(r event) (int64, error) { return r.Value.Version, nil }
	standing := func(_ string, _ bool, r event) (string, error) { return standingText(r.Value, 1), nil }
	next := func(_ string, _ bool, r event) (string, error) { return standingText(r.Value, 2), nil }
	p.standings = projection.Latest(fresh, nodeStandings, version, standing, schemas.String(), projection.Sparse())
	p.standings.Changes().Into(topicOf[projection.Row[string]](s.Prefix, TopicStandings))
	p.next = projection.Latest(fresh, nodeNext, version, next, schemas.String(), projection.Sparse(), projection.DefinitionVersion(2))
}

// standingText is the standing after a fact, by one of two definitions.
func standingText(e Event, definition uint16) string {
	standing := string(steps[e.Kind][1])
	if definition == 1 {
		return standing
	}
	return standing + " by " + string(e.Kind)
}

// choose passes on the standings of one definition, which commands can change.
func (s Settings) choose(p *parts, commands topology.Stream[[]byte, projection.Command]) {
	p.choice = projection.Choose(commands, nodeChoice, schemas.String(), []projection.Defined[string, string]{
		projection.Define(1, p.standings.Changes()), projection.Define(2, p.next.Changes()),
	})
	s.breakChoice(p.choice.Changes()).Into(topicOf[projection.Row[string]](s.Prefix, TopicChosen))
	p.choice.Answers().Into(topology.Topic(s.Prefix+TopicAnswers, schemas.Bytes(), schemas.JSON[projection.Answer]()))
}

// inputs is the prefix of what is read.
func (s Settings) inputs() string { return cmp.Or(s.Inputs, s.Prefix) }

// topicOf describes a topic of JSON.
func topicOf[V any](prefix, name string) topology.TopicOf[string, V] {
	return topology.Topic(prefix+name, schemas.String(), schemas.JSON[V]())
}

func (s Settings) id(r event) (string, error) {
	if s.Broken == NoInbox {
		return inbox.IngestionID(r)
	}
	return r.Value.ID, nil
}

// order is the business key of what is ordered.
func order(r event) (string, error) {
	if r.Value.Order == "" {
		return "", nil
	}
	return r.Key + "/" + r.Value.Order, nil
}

// sendConflicts makes dead letters of the events whose ids have said something else before.
func (s Settings) sendConflicts(conflicts topology.Stream[string, Event]) {
	if s.Broken == OverlooksConflicts {
		conflicts.Peek("broken-conflicts", func(event) error { return nil })
		return
	}
	deadletter.Send(conflicts, "contradicted", topology.Conflict, "the id was seen before with another payload")
}

func (s Settings) fold(old Account, _ bool, r event) (Account, error) {
	return Account{Facts: old.Facts + 1, Total: old.Total + r.Value.Amount, Last: r.Value}, nil
}

func (s Settings) gaps() []projection.Option {
	if s.Broken == AcceptsGaps {
		return []projection.Option{projection.OnGap(projection.AcceptLatest)}
	}
	return []projection.Option{projection.FirstVersion(1), projection.RepairGaps(schemas.JSON[Event](), projection.Limits{
		Records: 1000, StreamTime: 1000 * time.Hour, Then: projection.FailFast,
	})}
}

func contribution(r event) (ledger.Contribution, error) {
	c := ledger.Contribution{ID: r.Value.ID, Amounts: []int64{r.Value.Amount}}
	switch r.Value.Kind {
	case Correct:
		c.Corrects = r.Value.About
	case Reverse:
		c.Amounts, c.Reverses = nil, r.Value.About
	case Payout:
		c.Amounts = []int64{-r.Value.Amount}
	default:
	}
	return c, nil
}

// windows are so long that each movement is in two.
var windows = ledger.Windows{Size: 2 * day, Advance: day}

const day = 24 * time.Hour

// valued is the time of a movement of money.
func (s Settings) valued(r event) (int64, error) {
	if s.Broken == CountsByArrival {
		return r.Timestamp, nil
	}
	return r.Value.Valued, nil
}

// ask fails for frail accounts while something is wrong with the world.
func (s Settings) ask(r event) error {
	if !strings.HasPrefix(r.Key, frail) {
		return nil
	}
	wrong, err := s.wrong()
	switch {
	case err != nil:
		return err
	case wrong == worldDown:
		return topology.Fail(topology.Transient, schemas.Reason("the world is down"))
	case wrong == worldClosed:
		return topology.Fail(topology.Validation, schemas.Reason("the world is closed"))
	}
	return nil
}

// The possible faults of the world.
const (
	worldFine   = ""
	worldDown   = "down"
	worldClosed = "closed"
)

func (s Settings) wrong() (string, error) {
	if s.world != nil {
		return s.world(), nil
	}
	if s.World == "" {
		return worldFine, nil
	}
	text, err := os.ReadFile(s.World)
	if errors.Is(err, fs.ErrNotExist) {
		return worldFine, nil
	}
	return string(text), err
}

// Config is how an instance runs.
func (s Settings) Config() txn.Config {
	c := txn.Config{
		Brokers: s.Brokers, Application: s.Application, Instance: s.Instance, StateDir: s.StateDir, Workers: 1,
		SessionTimeout: s.SessionTimeout, TransactionTimeout: s.TransactionTimeout, CommitIntervalMax: 20 * time.Millisecond, CacheBytes: 8 << 20,
	}
	if mode, err := topology.ParseMode(s.Mode); s.Mode != "" && err == nil {
		c.Mode = mode
	}
	return c
}
