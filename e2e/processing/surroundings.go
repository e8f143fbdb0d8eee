package processing

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/topology"
)

// Surroundings are everything around a pipeline that runs in this process. The source sends lost
// facts on request. The operator switches between the definitions. A person decides unknown
// outcomes. The others are the providers and the world. Surroundings are safe for concurrent use.
type Surroundings struct {
	gateway, post *Gateway

	mu      sync.Mutex
	history *history
	random  *rand.Rand
	// accounts are those that live on, made is how many there were.
	accounts []string
	made     int
	// facts counts those of each account.
	facts map[string]int
	down  bool
	// fed, commands and findings are what was produced, seen is what has come out. As many of the
	// ranges in seen that the source was asked for are answered.
	fed      []delivery
	commands []projection.Command
	findings []effect.Resolution
	seen     outcome
	answered int
	// unfinished is what Finished has returned, known says that nothing has happened since.
	unfinished error
	known      bool
}

// NewSurroundings returns surroundings in which nothing has happened yet: see [Surroundings.Begin].
func NewSurroundings() *Surroundings {
	return &Surroundings{
		gateway: NewGateway(gatewayLoses), post: NewGateway(postLoses), history: newHistory(0, time.Time{}), facts: map[string]int{},
		seen: outcome{},
	}
}

// Begin is called once, before there are facts. The first fact has that time. Nothing expires in
// the inbox as long as all facts are of less than [Retention].
func (s *Surroundings) Begin(seed uint64, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history, s.random = newHistory(seed, began), rand.New(rand.NewPCG(seed, 10))
}

// Settings are those of a pipeline in these surroundings.
func (s *Surroundings) Settings() Settings {
	return Settings{provider: s.gateway, post: s.post, world: s.world}
}

func (s *Surroundings) world() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return worldDown
	}
	return worldFine
}

// Break takes the world down, or repairs it. Facts of frail accounts are parked meanwhile.
func (s *Surroundings) Break(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

const (
	// accountsMax is how many accounts live at the same time, lifeMax how many facts each has
	// about. A long life is spent as a closed account, which refuses everything.
	accountsMax = 6
	lifeMax     = 25
)

// Facts lets two accounts live on for some facts, and returns the records that tell of them, and of
// what becomes of facts on the way.
func (s *Surroundings) Facts(n int) []*kgo.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accounts = slices.DeleteFunc(s.accounts, func(account string) bool { return s.facts[account] >= lifeMax })
	for len(s.accounts) < accountsMax {
		account := fmt.Sprint("account-", s.made)
		if s.made%3 == 2 {
			account = frail + "-" + account
		}
		s.made++
		s.accounts = append(s.accounts, account)
	}
	s.random.Shuffle(len(s.accounts), func(i, j int) { s.accounts[i], s.accounts[j] = s.accounts[j], s.accounts[i] })
	for _, account := range s.accounts[:2] {
		s.facts[account] += n
	}
	return s.feed(s.history.disturb(s.history.grow(n, s.accounts[0], s.accounts[1]), everything))
}

// feed returns the records of deliveries.
func (s *Surroundings) feed(deliveries []delivery) []*kgo.Record {
	s.known = false
	s.fed = append(s.fed, deliveries...)
	records := make([]*kgo.Record, len(deliveries))
	for i, d := range deliveries {
		records[i] = &kgo.Record{
			Topic: TopicEvents, Partition: d.partition, Key: []byte(d.account), Value: []byte(d.value), Timestamp: time.UnixMilli(d.at),
		}
	}
	return records
}

// Switch returns the records that have the standings told by the other definition: the command to
// every partition, and behind it the one before it once more.
func (s *Surroundings) Switch() (records []*kgo.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = false
	commands := []projection.Command{s.history.command()}
	if n := len(s.commands); n > 0 {
		commands = append(commands, s.commands[n-1])
	}
	for _, c := range commands {
		for p := range int32(Partitions) {
			records = append(records, &kgo.Record{
				Topic: TopicCommands, Partition: p, Key: []byte(c.ID), Value: encode(c), Timestamp: time.UnixMilli(s.history.now()),
			})
		}
	}
	s.commands = append(s.commands, commands...)
	return records
}

// Outputs are the topics whose committed records [Surroundings.Take] gets.
func (s *Surroundings) Outputs() []string { return slices.Clone(outputs) }

// Take takes an output, and returns the records with which the source and the person answer it. The
// records of a partition come in their order.
func (s *Surroundings) Take(r *kgo.Record) ([]*kgo.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = false
	if err := s.seen.take(r); err != nil {
		return nil, err
	}
	if r.Topic == TopicDoubted {
		return s.resolve(r)
	}
	var answers []*kgo.Record
	err := s.seen.asked(s.answered, func(account string, first, last int64) {
		answers = append(answers, s.feed(s.history.send(func(f fact) bool {
			return f.account == account && first <= f.Version && f.Version <= last
		}))...)
	})
	s.answered = len(s.seen[placeAsked])
	return answers, err
}

// take adds a record of an output.
func (o outcome) take(r *kgo.Record) error {
	var headers []topology.Header
	for _, h := range r.Headers {
		headers = append(headers, topology.Header{Key: h.Key, Value: h.Value})
	}
	if err := o.written(r.Topic, r.Key, r.Value, headers); err != nil {
		return fmt.Errorf("%s[%d] offset %d: %w", r.Topic, r.Partition, r.Offset, err)
	}
	return nil
}

// resolve returns what a person finds out, twice, for the partition of the request.
func (s *Surroundings) resolve(doubted *kgo.Record) ([]*kgo.Record, error) {
	found, err := findOut(doubted.Value, s.post)
	if err != nil {
		return nil, err
	}
	var records []*kgo.Record
	for range 2 {
		records = append(records, &kgo.Record{
			Topic: TopicFindings, Partition: doubted.Partition, Key: doubted.Key, Value: encode(found), Timestamp: doubted.Timestamp,
		})
		s.findings = append(s.findings, found)
	}
	return records, nil
}

// Finished returns what is still to come of everything that was fed.
func (s *Surroundings) Finished() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known {
		return s.unfinished
	}
	want, _ := recount(s.fed, nil)
	recountCommands(s.commands, want, outcome{})
	recountFindings(s.findings, want)
	s.unfinished, s.known = errors.Join(s.history.foundAll(), want.difference(s.seen.known())), true
	return s.unfinished
}

// Judge compares the committed outputs with a recount of the committed inputs, both by topic and
// partition in the order of their logs, and the payments with the outputs.
func (s *Surroundings) Judge(log map[string][][]*kgo.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var deliveries []delivery
	for p, records := range log[TopicEvents] {
		for _, r := range records {
			deliveries = append(deliveries, delivery{int32(p), string(r.Key), string(r.Value), r.Timestamp.UnixMilli()})
		}
	}
	commands, err := commandsOf(log[TopicCommands])
	if err != nil {
		return err
	}
	var findings []effect.Resolution
	for _, records := range log[TopicFindings] {
		for _, r := range records {
			found, err := decode[effect.Resolution](r.Value)
			if err != nil {
				return err
			}
			findings = append(findings, found)
		}
	}
	want, _ := recount(deliveries, nil)
	recountCommands(commands, want, outcome{})
	recountFindings(findings, want)
	got := outcome{}
	for _, topic := range outputs {
		for _, records := range log[topic] {
			for _, r := range records {
				if err := got.take(r); err != nil {
					return err
				}
			}
		}
	}
	return errors.Join(s.history.foundAll(), want.difference(got.known()), got.askedOnce(), paidOnce(want, s.gateway, s.post))
}

// commandsOf returns the commands, of which every partition has the same.
func commandsOf(partitions [][]*kgo.Record) (commands []projection.Command, err error) {
	texts := make([]string, len(partitions))
	for p, records := range partitions {
		for _, r := range records {
			texts[p] += string(r.Value) + "\n"
			c, err := decode[projection.Command](r.Value)
			if err != nil {
				return nil, err
			}
			if p == 0 {
				commands = append(commands, c)
			}
		}
		if texts[p] != texts[0] {
			return nil, fmt.Errorf("the commands of partition %d are\n%s, those of partition 0 are\n%s", p, texts[p], texts[0])
		}
	}
	return commands, nil
}
