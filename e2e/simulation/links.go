package simulation

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// The topics of the subject of links.
const (
	LinksTopic   = "links"
	TargetsTopic = "targets"
	// LinkedTopic has the left join, LinkedBothTopic the inner one.
	LinkedTopic     = "linked"
	LinkedBothTopic = "linked-both"
)

// Link is a version of a link: the key of its target, or nothing.
type Link struct {
	Version int64  `json:"version"`
	To      string `json:"to"`
}

// links joins a table of links with a table of the versions of their targets, by a foreign key.
type links struct {
	plain
	versions map[string]map[string]int64
}

// Links has two joins by a foreign key. Links change their targets, and both are deleted.
func Links() (Subject, error) {
	b := topology.NewBuilder("links")
	declareLinks(b)
	t, err := b.Build()
	return newLinks("links", t), err
}

// declareLinks adds both tables and their joins to a topology.
func declareLinks(b *topology.Builder) {
	key, version, link, joined := schemas.String(), schemas.Int64(), schemas.JSON[Link](), schemas.JSON[Joined]()
	left := topology.TableFrom(b, topology.Topic(LinksTopic, key, link), topology.TimestampedStore("link-table", key, link))
	right := topology.TableFrom(b, topology.Topic(TargetsTopic, key, version), topology.TimestampedStore("target-table", key, version))
	target := func(_ string, l Link) (topology.Option[string], error) {
		if l.To == "" {
			return topology.None[string](), nil
		}
		return topology.Some(l.To), nil
	}
	topology.LeftJoinForeignKey(left, right, "with-target", target, func(_ string, l Link, r topology.Option[int64]) (Joined, error) {
		return Joined{l.Version, r.Or(0)}, nil
	}).Into(topology.Topic(LinkedTopic, key, joined))
	topology.JoinForeignKey(left, right, "with-both", target, func(_ string, l Link, r int64) (Joined, error) {
		return Joined{l.Version, r}, nil
	}).Into(topology.Topic(LinkedBothTopic, key, joined))
}

// newLinks returns the subject of the links in a topology that has them.
func newLinks(name string, t *topology.Topology) *links {
	return &links{
		plain: newPlain(name, t), versions: map[string]map[string]int64{LinksTopic: {}, TargetsTopic: {}},
	}
}

const (
	linkKeys     = 20
	targetKeys   = 8
	noTarget     = 0.1
	targetsShare = 0.3
)

func (s *links) Feed(f *Feed, n int, inflight *sync.WaitGroup) error {
	records := make([]*kgo.Record, 0, n)
	for range n {
		r := &kgo.Record{Topic: LinksTopic, Key: fmt.Append(nil, "link-", f.Rng.IntN(linkKeys))}
		if f.Rng.Float64() < targetsShare {
			r.Topic, r.Key = TargetsTopic, fmt.Append(nil, "target-", f.Rng.IntN(targetKeys))
		}
		s.versions[r.Topic][string(r.Key)]++
		version := s.versions[r.Topic][string(r.Key)]
		var err error
		switch {
		case f.Rng.Float64() < deleteShare:
		case r.Topic == TargetsTopic:
			r.Value, err = schemas.Int64().Append(nil, version)
		case f.Rng.Float64() < noTarget:
			r.Value, err = json.Marshal(Link{Version: version})
		default:
			r.Value, err = json.Marshal(Link{Version: version, To: fmt.Sprint("target-", f.Rng.IntN(targetKeys))})
		}
		if err != nil {
			return err
		}
		records = append(records, r)
	}
	return s.send(f, records, inflight)
}

func (s *links) Finish(*Feed, *sync.WaitGroup) error { return nil }

// linkLog is what the inputs say.
type linkLog struct {
	// links are all versions of each link, by key and version.
	links map[string]map[int64]Link
	// last are the links that are there in the end, and targets the versions of the targets.
	last    map[string]Link
	targets map[string]int64
	// known has all versions that a target has had.
	known map[string]map[int64]bool
}

func newLinkLog(log map[string][][]*kgo.Record) (*linkLog, error) {
	l := &linkLog{
		links: map[string]map[int64]Link{}, last: map[string]Link{}, targets: map[string]int64{}, known: map[string]map[int64]bool{},
	}
	for _, r := range slices.Concat(log[LinksTopic]...) {
		key := string(r.Key)
		if r.Value == nil {
			delete(l.last, key)
			continue
		}
		var link Link
		if err := json.Unmarshal(r.Value, &link); err != nil {
			return nil, err
		}
		if l.links[key] == nil {
			l.links[key] = map[int64]Link{}
		}
		l.links[key][link.Version], l.last[key] = link, link
	}
	for _, r := range slices.Concat(log[TargetsTopic]...) {
		key := string(r.Key)
		if r.Value == nil {
			delete(l.targets, key)
			continue
		}
		version, err := schemas.Int64().Decode(r.Value)
		if err != nil {
			return nil, err
		}
		if l.known[key] == nil {
			l.known[key] = map[int64]bool{}
		}
		l.known[key][version], l.targets[key] = true, version
	}
	return l, nil
}

// Judge wants the results of each join to end as the join of what both inputs end as. On the way
// each result is made of versions that belong together, and no two versions meet twice. The
// versions of a link do not go back from one result to the next, nor do those of a target while the
// link stays the same.
func (s *links) Judge(log map[string][][]*kgo.Record) []string {
	wrong := s.judgeInputs(log, LinksTopic, TargetsTopic)
	inputs, err := newLinkLog(log)
	if err != nil {
		return append(wrong, fmt.Sprintf("%s: %v", s.name, err))
	}
	for topic, inner := range map[string]bool{LinkedTopic: false, LinkedBothTopic: true} {
		for _, w := range inputs.judge(slices.Concat(log[topic]...), inner) {
			wrong = append(wrong, fmt.Sprintf("%s: %s: %s", s.name, topic, w))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// judge looks at the results of one join. Those of one key are in one partition, in their order.
func (l *linkLog) judge(results []*kgo.Record, inner bool) (wrong []string) {
	last, latest := map[string]Joined{}, map[string]Joined{}
	met := map[string]map[Joined]bool{}
	for _, r := range results {
		key := string(r.Key)
		if r.Value == nil {
			delete(last, key)
			continue
		}
		var v Joined
		if err := json.Unmarshal(r.Value, &v); err != nil {
			return append(wrong, err.Error())
		}
		link, there := l.links[key][v.Left]
		before := latest[key]
		switch {
		case !there, v.Right != 0 && !l.known[link.To][v.Right], inner && v.Right == 0:
			wrong = append(wrong, fmt.Sprintf("offset %d: %s %+v: there are no such versions", r.Offset, key, v))
		case v.Right != 0 && met[key][v]:
			wrong = append(wrong, fmt.Sprintf("offset %d: %s %+v: the versions meet twice", r.Offset, key, v))
		case v.Left < before.Left, v.Left == before.Left && v.Right != 0 && v.Right < before.Right:
			wrong = append(wrong, fmt.Sprintf("offset %d: %s %+v follows %+v", r.Offset, key, v, before))
		}
		if v.Left == before.Left {
			before.Right = max(before.Right, v.Right)
		} else {
			before = v
		}
		if met[key] == nil {
			met[key] = map[Joined]bool{}
		}
		last[key], latest[key], met[key][v] = v, before, true
	}
	for key, link := range l.last {
		want := Joined{link.Version, l.targets[link.To]}
		got, there := last[key]
		if wanted := !inner || want.Right != 0; there != wanted || there && got != want {
			wrong = append(wrong, fmt.Sprintf("%s ends as %+v, %t, want %+v, %t", key, got, there, want, wanted))
		}
		delete(last, key)
	}
	for key, got := range last {
		wrong = append(wrong, fmt.Sprintf("%s ends as %+v, and the link is deleted", key, got))
	}
	return wrong
}
