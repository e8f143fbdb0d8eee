package simulation

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// The topics of the subject of tables.
const (
	LeftTopic  = "left"
	RightTopic = "right"
	// EitherTopic has the outer join, BothTopic the inner one.
	EitherTopic = "either"
	BothTopic   = "both"
)

// Joined is a value of a joined table: the versions that it is made of, 0 for an absent side.
type Joined struct {
	Left  int64 `json:"left"`
	Right int64 `json:"right"`
}

// tables joins two tables of versions. Each input is a new version of its key, or deletes it.
type tables struct {
	plain
	// versions are the last ones, by topic and key; gone says that the key is deleted.
	versions map[string]map[string]int64
	gone     map[string]map[string]bool
}

// rightTable is the store of the right table.
func rightTable() topology.Store[state.Timestamped[string, int64]] {
	return topology.TimestampedStore("right-table", schemas.String(), schemas.Int64())
}

// Tables has two tables of two topics, their outer join and their inner join. The right table is in
// memory, and the left one on the disk.
func Tables() (Subject, error) {
	b := topology.NewBuilder("tables")
	declareTables(b, rightTable().InMemory())
	t, err := b.Build()
	return newTables("tables", t), err
}

// declareTables adds the tables and their joins to a topology, and returns the left table.
func declareTables(b *topology.Builder, rights topology.Store[state.Timestamped[string, int64]]) topology.Table[string, int64] {
	key, version, joined := schemas.String(), schemas.Int64(), schemas.JSON[Joined]()
	left := topology.TableFrom(b, topology.Topic(LeftTopic, key, version), topology.TimestampedStore("left-table", key, version))
	right := topology.TableFrom(b, topology.Topic(RightTopic, key, version), rights)
	topology.OuterJoinTables(left, right, "join-either", func(_ string, l, r topology.Option[int64]) (Joined, error) {
		return Joined{l.Or(0), r.Or(0)}, nil
	}).Into(topology.Topic(EitherTopic, key, joined))
	topology.JoinTables(left, right, "join-both", func(_ string, l, r int64) (Joined, error) {
		return Joined{l, r}, nil
	}).Into(topology.Topic(BothTopic, key, joined))
	return left
}

// newTables returns the subject of the tables in a topology that has them.
func newTables(name string, t *topology.Topology) *tables {
	return &tables{
		plain:    newPlain(name, t),
		versions: map[string]map[string]int64{LeftTopic: {}, RightTopic: {}}, gone: map[string]map[string]bool{LeftTopic: {}, RightTopic: {}},
	}
}

const (
	tableKeys   = 30
	deleteShare = 0.1
)

func (s *tables) Feed(f *Feed, n int, inflight *sync.WaitGroup) error {
	records := make([]*kgo.Record, 0, n)
	for range n {
		topic, key := LeftTopic, fmt.Sprint("key-", f.Rng.IntN(tableKeys))
		if f.Rng.IntN(2) == 0 {
			topic = RightTopic
		}
		s.versions[topic][key]++
		r := &kgo.Record{Topic: topic, Key: []byte(key)}
		if version := s.versions[topic][key]; version == 1 || s.gone[topic][key] || f.Rng.Float64() >= deleteShare {
			value, err := schemas.Int64().Append(nil, version)
			if err != nil {
				return err
			}
			r.Value = value
		}
		s.gone[topic][key] = r.Value == nil
		records = append(records, r)
	}
	return s.send(f, records, inflight)
}

func (s *tables) Finish(*Feed, *sync.WaitGroup) error { return nil }

// Judge wants the joined records of each partition to be a path through the two inputs: see
// [joinPath].
func (s *tables) Judge(log map[string][][]*kgo.Record) []string {
	wrong := s.judgeInputs(log, LeftTopic, RightTopic)
	for topic, inner := range map[string]bool{EitherTopic: false, BothTopic: true} {
		if len(log[topic]) < len(log[LeftTopic]) {
			wrong = append(wrong, fmt.Sprintf("%s: %s has %d partitions", s.name, topic, len(log[topic])))
			continue
		}
		for p := range log[topic] {
			left, err := newTableLog(log[LeftTopic][p])
			if err == nil {
				var right *tableLog
				if right, err = newTableLog(log[RightTopic][p]); err == nil {
					err = joinPath{left: left, right: right, inner: inner}.walk(log[topic][p])
				}
			}
			if err != nil {
				wrong = append(wrong, fmt.Sprintf("%s: %s[%d]: %v", s.name, topic, p, err))
			}
		}
	}
	slices.Sort(wrong)
	return wrong
}

// tableLog is one partition of the topic of a table.
type tableLog struct {
	keys     []string
	versions []int64 // 0 deletes
	// at has the indexes of the records of a key, ascending.
	at map[string][]int
}

func newTableLog(records []*kgo.Record) (*tableLog, error) {
	l := &tableLog{at: map[string][]int{}}
	for i, r := range records {
		version := int64(0)
		if r.Value != nil {
			var err error
			if version, err = schemas.Int64().Decode(r.Value); err != nil {
				return nil, err
			}
		}
		l.keys, l.versions = append(l.keys, string(r.Key)), append(l.versions, version)
		l.at[string(r.Key)] = append(l.at[string(r.Key)], i)
	}
	return l, nil
}

// value returns the version of a key after the first n records, 0 if it has none.
func (l *tableLog) value(key string, n int) int64 {
	at := l.at[key]
	i, _ := slices.BinarySearch(at, n)
	if i == 0 {
		return 0
	}
	return l.versions[at[i-1]]
}

// joinPath judges a join. A task takes the records of both partitions, each partition in its order,
// one record at a time, in an order of the two that is not known here. So what it writes is a path
// from the beginning of both logs to their ends. A step takes one record of one side. It writes one
// record, made of the new version and of what the other side has at that moment. It writes nothing
// where the other side has no value: in an inner join always, in an outer one if the record deletes
// what is not there.
type joinPath struct {
	left, right *tableLog
	inner       bool
}

// place is how many records of each side are taken.
type place struct{ left, right int }

// walk returns an error if no path writes the records.
func (j joinPath) walk(records []*kgo.Record) error {
	// The places that the records so far can have led to. A step without a record makes them more
	// than one.
	places := j.silent(map[place]bool{{}: true})
	for _, r := range records {
		var v Joined
		if r.Value != nil {
			if err := json.Unmarshal(r.Value, &v); err != nil {
				return fmt.Errorf("offset %d: %w", r.Offset, err)
			}
			if v == (Joined{}) {
				return fmt.Errorf("offset %d: a record of two absent sides", r.Offset)
			}
		}
		next := map[place]bool{}
		for at := range places {
			for _, s := range j.steps(at) {
				if s.writes && s.key == string(r.Key) && s.value == v {
					next[s.to] = true
				}
			}
		}
		if len(next) == 0 {
			return fmt.Errorf("offset %d: %s %+v is no step from %s", r.Offset, r.Key, v, j.describe(places))
		}
		places = j.silent(next)
	}
	if !places[place{len(j.left.keys), len(j.right.keys)}] {
		return fmt.Errorf("the records end, and the inputs go on from %s", j.describe(places))
	}
	return nil
}

// step is a step to a place.
type step struct {
	to     place
	key    string
	writes bool
	value  Joined // zero for a delete
}

// steps returns the one or two that there are from a place.
func (j joinPath) steps(at place) []step {
	var steps []step
	if at.left < len(j.left.keys) {
		key, to := j.left.keys[at.left], place{at.left + 1, at.right}
		before, l, r := j.left.value(key, at.left), j.left.versions[at.left], j.right.value(key, at.right)
		steps = append(steps, j.step(to, key, before, l, r, Joined{l, r}))
	}
	if at.right < len(j.right.keys) {
		key, to := j.right.keys[at.right], place{at.left, at.right + 1}
		before, r, l := j.right.value(key, at.right), j.right.versions[at.right], j.left.value(key, at.left)
		steps = append(steps, j.step(to, key, before, r, l, Joined{l, r}))
	}
	return steps
}

// step is the step of a side from the version before to the one behind, while the other side has
// another one.
func (j joinPath) step(to place, key string, before, behind, other int64, value Joined) step {
	s := step{to: to, key: key, value: value}
	if j.inner {
		s.writes = other != 0
		if behind == 0 {
			s.value = Joined{}
		}
		return s
	}
	s.writes = other != 0 || behind != 0 || before != 0
	return s
}

// silent adds what can be reached without a record.
func (j joinPath) silent(places map[place]bool) map[place]bool {
	todo := slices.Collect(maps.Keys(places))
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, s := range j.steps(at) {
			if !s.writes && !places[s.to] {
				places[s.to] = true
				todo = append(todo, s.to)
			}
		}
	}
	return places
}

// describe names the furthest place and the steps from there.
func (j joinPath) describe(places map[place]bool) string {
	var furthest place
	for at := range places {
		if at.left+at.right > furthest.left+furthest.right {
			furthest = at
		}
	}
	text := fmt.Sprintf("record %d of %d and %d of %d", furthest.left, len(j.left.keys), furthest.right, len(j.right.keys))
	for _, s := range j.steps(furthest) {
		text += fmt.Sprintf(", next %s %+v", s.key, s.value)
	}
	return text
}
