package virtual

import (
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Commit is a set of positions that a request asked the coordinator to commit, in the order in
// which kfake takes them up. kfake has no log of positions that a client could read, as
// __consumer_offsets is, so this stands for it.
type Commit struct {
	Group string
	// Producer and Epoch name the transaction, -1 for positions that were committed outside of one.
	// Whether the transaction was committed is what its markers in the logs say.
	Producer  int64
	Epoch     int16
	Positions []Position
}

// Position is the offset of the next record to read.
type Position struct {
	Topic     string
	Partition int32
	Offset    int64
}

// journal collects the commits. A request that came to the wrong coordinator counts for nothing.
type journal struct {
	k  *Kafka
	mu sync.Mutex
	// staged are the positions of transactions that have not been asked to commit, by producer id
	// and epoch. ended are those that were asked to end: a request that arrives later adds nothing
	// to them.
	staged map[[2]int64][]Commit
	ended  map[[2]int64]bool
	// producers are those of transactional ids, since their last InitProducerID.
	producers map[string]*producer
	commits   []Commit
	// answered are those whose end was answered before their markers are written. They follow in
	// commits.
	answered []Commit
}

func newJournal(k *Kafka) *journal {
	j := &journal{k: k, staged: map[[2]int64][]Commit{}, ended: map[[2]int64]bool{}, producers: map[string]*producer{}}
	k.controls.add(kmsg.TxnOffsetCommit, j.stage)
	k.controls.add(kmsg.OffsetCommit, j.plain)
	k.controls.add(kmsg.Produce, j.refuseStale)
	k.controls.add(kmsg.InitProducerID, j.initialise)
	return j
}

// Commits returns the commits so far, each transaction's at its first request to commit.
func (k *Kafka) Commits() []Commit {
	k.journal.mu.Lock()
	defer k.journal.mu.Unlock()
	return k.journal.commits[:len(k.journal.commits):len(k.journal.commits)]
}

// AskedToCommit returns the highest position that the coordinator was asked to commit in a
// partition, 0 if there is none.
func (k *Kafka) AskedToCommit(group, topic string, partition int32) (highest int64) {
	k.journal.mu.Lock()
	defer k.journal.mu.Unlock()
	for _, c := range slices.Concat(k.journal.commits, k.journal.answered) {
		for _, p := range c.Positions {
			if c.Group == group && p.Topic == topic && p.Partition == partition {
				highest = max(highest, p.Offset)
			}
		}
	}
	return highest
}

// IsCommit reports whether the coordinator was asked to commit exactly this position in a partition.
func (k *Kafka) IsCommit(group, topic string, partition int32, offset int64) bool {
	k.journal.mu.Lock()
	defer k.journal.mu.Unlock()
	for _, commits := range [][]Commit{k.journal.commits, k.journal.answered} {
		for _, c := range slices.Backward(commits) {
			if c.Group == group && slices.Contains(c.Positions, Position{Topic: topic, Partition: partition, Offset: offset}) {
				return true
			}
		}
	}
	return false
}

func (j *journal) stage(kreq kmsg.Request) (kmsg.Response, bool) {
	req := kreq.(*kmsg.TxnOffsetCommitRequest)
	if j.k.CurrentNode() != j.k.CoordinatorFor(req.Group) {
		return nil, false
	}
	c := Commit{Group: req.Group, Producer: req.ProducerID, Epoch: req.ProducerEpoch}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			c.add(j.topic(t.Topic, t.TopicID), p.Partition, p.Offset)
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.note(req.TransactionalID, req.ProducerID, req.ProducerEpoch)
	key := [2]int64{req.ProducerID, int64(req.ProducerEpoch)}
	if !j.ended[key] {
		j.staged[key] = append(j.staged[key], c)
	}
	return nil, false
}

func (j *journal) plain(kreq kmsg.Request) (kmsg.Response, bool) {
	req := kreq.(*kmsg.OffsetCommitRequest)
	if j.k.CurrentNode() != j.k.CoordinatorFor(req.Group) {
		return nil, false
	}
	c := Commit{Group: req.Group, Producer: -1, Epoch: -1}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			c.add(j.topic(t.Topic, t.TopicID), p.Partition, p.Offset)
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.commits = append(j.commits, c)
	return nil, false
}

func (c *Commit) add(topic string, partition int32, offset int64) {
	c.Positions = append(c.Positions, Position{topic, partition, offset})
}

// topic returns the name of a topic that a request names, or that it names by its id.
func (j *journal) topic(name string, id [16]byte) string {
	if name != "" {
		return name
	}
	if info := j.k.TopicIDInfo(id); info != nil {
		return info.Topic
	}
	return name
}

// answer notes a transaction whose commit is decided. Its positions become visible when its markers
// are written.
func (j *journal) answer(req *kmsg.EndTxnRequest) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.answered = append(j.answered, j.staged[[2]int64{req.ProducerID, int64(req.ProducerEpoch)}]...)
}

// end applies the staged positions of a transaction when its coordinator is asked to end it, as
// kfake does.
func (j *journal) end(req *kmsg.EndTxnRequest) {
	j.mu.Lock()
	defer j.mu.Unlock()
	key := [2]int64{req.ProducerID, int64(req.ProducerEpoch)}
	if req.Commit {
		j.commits = append(j.commits, j.staged[key]...)
	}
	delete(j.staged, key)
	if req.Version >= epochPerTransaction {
		j.ended[key] = true
	}
}

// epochPerTransaction is the version of EndTxn from which on each transaction has a producer epoch
// of its own (KIP-890).
const epochPerTransaction = 5
