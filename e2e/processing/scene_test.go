//go:build unix

package processing

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/admin"
)

// scene is the pipeline on a cluster, with everything that was fed to it and all that was seen of
// it.
type scene struct {
	t        *testing.T
	cluster  *cluster.Cluster
	producer *kgo.Client
	reader   *kgo.Client
	settings Settings
	parts    parts
	gateway  *Gateway
	post     *Gateway
	history  *history
	// fed are all deliveries, in the order of their partitions, commands the commands to each
	// partition, and findings the decisions of people. expiries say when the ids in the inbox have
	// expired, and expected is the resulting outcome.
	fed      []delivery
	commands []projection.Command
	findings []effect.Resolution
	expiries []expiry
	expected expected
	// seen is what the reader has read so far. As many of the ranges in it that the source was
	// asked for are answered.
	seen     outcome
	answered int
	// lives counts those that have begun.
	lives int
}

// expected is a recount, made again only when more was fed.
type expected struct {
	of              [3]int
	outputs, stores outcome
}

// newScene makes the topics. The seed is that of the history.
func newScene(t *testing.T, c *cluster.Cluster, seed uint64) *scene {
	t.Helper()
	prefix := c.Name(t, "") + "-"
	dir := t.TempDir()
	s := &scene{
		t: t, cluster: c, producer: c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner())),
		gateway: NewGateway(gatewayLoses), post: NewGateway(postLoses),
		history: newHistory(seed, time.Now().Add(-6*time.Hour).Truncate(time.Minute)), seen: outcome{},
	}
	s.settings = Settings{
		Brokers: c.Brokers(), Application: prefix + "app", Instance: "first", StateDir: filepath.Join(dir, "first"), Prefix: prefix,
		World: filepath.Join(dir, "world"),
	}
	if c.Kind() == cluster.KindVirtual {
		s.settings.provider, s.settings.post = s.gateway, s.post
	} else { // some lives are processes
		gateway, post := httptest.NewServer(s.gateway), httptest.NewServer(s.post)
		t.Cleanup(gateway.Close)
		t.Cleanup(post.Close)
		s.settings.Gateway, s.settings.Post = gateway.URL, post.URL
		s.settings.SessionTimeout, s.settings.TransactionTimeout = sessionOnKafka, transactionOnKafka
	}
	var err error
	if _, s.parts, err = s.settings.build(); err != nil {
		t.Fatal(err)
	}
	c.CreateTopics(t, Partitions, named(prefix, inputs)...)
	s.reader = s.readerOf(prefix)
	return s
}

// On real Kafka timeouts are as short as a busy machine bears: rows wait for both.
const (
	sessionOnKafka     = 2 * time.Second
	transactionOnKafka = 4 * time.Second
)

// pollOf returns how long a reader of outputs waits for some at a time. On virtual time a longer
// wait costs nothing.
func pollOf(c *cluster.Cluster) time.Duration {
	if c.Kind() == cluster.KindVirtual {
		return 200 * time.Millisecond
	}
	return 20 * time.Millisecond
}

// named returns names of topics with their prefix.
func named(prefix string, names []string) []string {
	topics := make([]string, len(names))
	for i, name := range names {
		topics[i] = prefix + name
	}
	return topics
}

// readerOf makes topics for outputs, and reads them.
func (s *scene) readerOf(prefix string) *kgo.Client {
	s.t.Helper()
	topics := named(prefix, outputs)
	s.cluster.CreateTopics(s.t, Partitions, topics...)
	return s.cluster.Client(s.t, kgo.ConsumeTopics(topics...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(5*pollOf(s.cluster)))
}

// second returns the settings of another instance.
func (s *scene) second() Settings {
	o := s.settings
	o.Instance, o.StateDir = "second", filepath.Join(filepath.Dir(s.settings.StateDir), "second")
	return o
}

// The accounts of the scenes.
var accounts = []string{"anna", "bert", frail + "-carl"}

// more lets the accounts live on, feeds what becomes of that on the way, and has the standings told
// by the other definition.
func (s *scene) more(m mischief) {
	s.t.Helper()
	s.feed(s.history.disturb(s.history.grow(6, accounts...), m)...)
	s.command(s.history.command())
}

// command writes a command to every partition, and then the one before it once more.
func (s *scene) command(c projection.Command) {
	s.t.Helper()
	commands := []projection.Command{c}
	if n := len(s.commands); n > 0 {
		commands = append(commands, s.commands[n-1])
	}
	var records []*kgo.Record
	for _, c := range commands {
		for p := range int32(Partitions) {
			records = append(records, &kgo.Record{
				Topic: s.settings.Prefix + TopicCommands, Partition: p, Key: []byte(c.ID), Value: encode(c),
				Timestamp: time.UnixMilli(s.history.now()),
			})
		}
	}
	if err := s.producer.ProduceSync(s.t.Context(), records...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
	s.commands = append(s.commands, commands...)
}

// feed writes deliveries.
func (s *scene) feed(deliveries ...delivery) {
	s.t.Helper()
	records := make([]*kgo.Record, len(deliveries))
	for i, d := range deliveries {
		records[i] = &kgo.Record{
			Topic: s.settings.Prefix + TopicEvents, Partition: d.partition, Key: []byte(d.account), Value: []byte(d.value),
			Timestamp: time.UnixMilli(d.at),
		}
	}
	if err := s.producer.ProduceSync(s.t.Context(), records...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
	s.fed = append(s.fed, deliveries...)
}

// inputs is how much was fed of everything.
func (s *scene) inputs() [3]int { return [...]int{len(s.fed), len(s.commands), len(s.findings)} }

// want returns what has to come of everything that was fed.
func (s *scene) want() expected {
	if of := s.inputs(); s.expected.of != of {
		s.expected.of = of
		s.expected.outputs, s.expected.stores = recount(s.fed, s.expiries)
		recountCommands(s.commands, s.expected.outputs, s.expected.stores)
		recountFindings(s.findings, s.expected.outputs)
	}
	return s.expected
}

// look reads outputs for a moment, sends lost facts that are requested, and decides unknown
// outcomes.
func (s *scene) look() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), pollOf(s.cluster))
	defer cancel()
	s.reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
		s.take(s.seen, r)
		if r.Topic == s.settings.Prefix+TopicDoubted {
			s.resolve(r)
		}
	})
	err := s.seen.asked(s.answered, func(account string, first, last int64) {
		if found := s.history.send(func(f fact) bool { return f.account == account && first <= f.Version && f.Version <= last }); len(found) > 0 {
			s.feed(found...)
		}
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.answered = len(s.seen[placeAsked])
}

// resolve writes what a person finds out, twice, to the partition of the request.
func (s *scene) resolve(doubted *kgo.Record) {
	s.t.Helper()
	found, err := findOut(doubted.Value, s.post)
	if err != nil {
		s.t.Fatal(err)
	}
	for range 2 {
		r := &kgo.Record{
			Topic: s.settings.Prefix + TopicFindings, Partition: doubted.Partition, Key: doubted.Key, Value: encode(found),
			Timestamp: doubted.Timestamp,
		}
		if err := s.producer.ProduceSync(s.t.Context(), r).FirstErr(); err != nil {
			s.t.Fatal(err)
		}
		s.findings = append(s.findings, found)
	}
}

func (s *scene) take(into outcome, r *kgo.Record) {
	s.t.Helper()
	var headers []topology.Header
	for _, h := range r.Headers {
		headers = append(headers, topology.Header{Key: h.Key, Value: h.Value})
	}
	if err := into.written(strings.TrimPrefix(r.Topic, s.settings.Prefix), r.Key, r.Value, headers); err != nil {
		s.t.Fatalf("%s[%d]@%d: %v", r.Topic, r.Partition, r.Offset, err)
	}
}

// alive returns an error if no life is left.
type alive = func() error

// until waits until something holds of what was seen.
func (s *scene) until(what string, lives alive, holds func() error) {
	s.t.Helper()
	instance.Await(s.t, what, lives, func() error { s.look(); return holds() })
}

// finish waits until everything that was fed has come to what it has to.
func (s *scene) finish(lives alive) {
	s.t.Helper()
	s.until("the end of everything that was fed", lives, s.finished)
}

func (s *scene) finished() error {
	if err := s.history.foundAll(); err != nil {
		return err
	}
	return s.want().outputs.without(TopicArchive).difference(s.seen.known().without(TopicArchive))
}

// expireAll advances the time so that all facts so far have expired in the inbox when the next
// facts come. None of them is in flight any more.
func (s *scene) expireAll(lives alive) {
	s.t.Helper()
	s.finish(lives)
	s.expiries = append(s.expiries, expiry{len(s.fed), s.history.age()})
	s.expected = expected{} // the ids are gone
}

// past is a life before that which a row is about, and leaves it ids to archive.
func (s *scene) past() {
	s.t.Helper()
	l := s.start(s.settings)
	s.more(everything)
	s.expireAll(l.Alive)
	l.End()
}

// age expires all facts so far in the inbox, and waits until they are archived.
func (s *scene) age(lives alive) {
	s.t.Helper()
	s.expireAll(lives)
	s.feed(s.history.ticks(s.fed)...)
	s.until("the archive", lives, func() error { return s.want().outputs.difference(s.seen.known()) })
}

// start begins a life in this process, without failpoints.
func (s *scene) start(settings Settings) *instance.App {
	s.t.Helper()
	host := s.hostName(settings)
	return instance.StartOn(s.t, s.cluster, host, settings, "", instance.NewLog(s.t, host))
}

// hostName returns the host of another incarnation.
func (s *scene) hostName(settings Settings) string {
	s.lives++
	return fmt.Sprintf("%s.%d", settings.Instance, s.lives)
}

// victim is a life with a failpoint armed.
type victim struct {
	instance.Victim
	// hit is closed when the armed point has been hit.
	hit <-chan struct{}
}

// startArmed begins a life that does something at a point.
func (s *scene) startArmed(point, action string, skip int) victim {
	s.t.Helper()
	log := instance.NewLog(s.t, "the armed life")
	hit := log.Await("failpoint " + point + " " + action)[0]
	arm := fmt.Sprintf("%s=%s,skip=%d", point, action, skip)
	return victim{instance.StartVictim(s.t, s.cluster, pipelineProgram, s.hostName(s.settings), s.settings, arm, log), hit}
}

// feedUntil feeds until the point of the life is hit.
func (s *scene) feedUntil(p victim) {
	s.t.Helper()
	isHit := func() bool { return instance.Closed(p.hit) }
	for !isHit() {
		s.more(everything)
		s.until("the point, or the end of what was fed", func() error {
			if err := p.Alive(); err != nil && !isHit() {
				return err
			}
			return nil
		}, func() error {
			if isHit() {
				return nil
			}
			return s.finished()
		})
	}
}

// check compares the stores of the lives with the recount. A store follows its commit by a moment.
func (s *scene) check(lives ...*instance.App) {
	s.t.Helper()
	s.until("the stores", lives[0].Alive, func() error {
		got, err := stored(s.parts, opener{lives: lives})
		if err != nil {
			return err
		}
		return s.want().stores.difference(got.archived(s.seen[TopicArchive]))
	})
}

// judge is the end of each scene: nothing is wrong with it, and nothing was left open.
func (s *scene) judge() {
	s.t.Helper()
	if err := s.judged(); err != nil {
		s.t.Error(err)
	}
	if open, err := s.cluster.OpenTransactions(s.t.Context(), s.settings.Application); err != nil || len(open) > 0 {
		s.t.Errorf("open transactions in the end: %s (%v)", strings.Join(open, ", "), err)
	}
}

// judged compares everything that was ever written, once more and as a whole, and the payments,
// with the recount.
func (s *scene) judged() error {
	s.t.Helper()
	all := outcome{}
	for _, name := range outputs {
		for _, r := range s.cluster.Records(s.t, s.settings.Prefix+name) {
			s.take(all, r)
		}
	}
	return errors.Join(s.want().outputs.difference(all.known()), all.askedOnce(), paidOnce(s.want().outputs, s.gateway, s.post))
}

// whole is the end of a scene: one incarnation finishes the rest and expires it, and another one
// restores everything from the changelogs.
func (s *scene) whole() {
	s.t.Helper()
	l := s.start(s.settings)
	s.more(everything)
	s.finish(l.Alive)
	s.check(l)
	copies := slices.Clone(s.fed[len(s.fed)-8:])
	s.age(l.Alive)
	s.check(l)
	l.End()
	s.lose()
	l = s.start(s.settings)
	s.feed(append(copies, s.fed[len(s.fed)-8:]...)...) // expired ones, and others
	s.finish(l.Alive)
	s.check(l)
	l.End()
	s.judge()
}

// lose takes the directory of the first instance away.
func (s *scene) lose() {
	s.t.Helper()
	if err := os.RemoveAll(s.settings.StateDir); err != nil {
		s.t.Fatal(err)
	}
}

// be says what is wrong with the world.
func (s *scene) be(wrong string) {
	s.t.Helper()
	if err := os.WriteFile(s.settings.World, []byte(wrong), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// connect returns a client of package admin, closed at the end of the test.
func connect(t *testing.T, c *cluster.Cluster) *admin.Client {
	t.Helper()
	client, err := admin.ConnectWith(t.Context(), admin.Config{Brokers: c.Brokers(), Dialer: c.Dialer("operator")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}
