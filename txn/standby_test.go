//go:build onceward_failpoints

package txn_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/state/pebblestore/disktest"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// withStandbys makes a setting of a scene that has so many copies of each task.
func withStandbys(n int) func(string, *txn.Config) {
	return func(_ string, cfg *txn.Config) { cfg.Standbys = n }
}

// warm says whether an instance has so many copies, and all of them are warm.
func (s *peerScene) warm(instance string, copies int) bool {
	standbys := s.apps[instance].Status().Standbys
	cold := func(c txn.StandbyStatus) bool { return c.State != txn.StandbyWarm }
	return len(standbys) == copies && !slices.ContainsFunc(standbys, cold)
}

// atEnd says whether all tasks of the instances, and all copies of these, are at an offset.
func (s *peerScene) atEnd(offset int, instances ...string) bool {
	tasks := 0
	for _, instance := range instances {
		status := s.apps[instance].Status()
		for _, task := range status.Tasks {
			if len(task.Inputs) == 0 || task.Inputs[0].Offset != int64(offset) {
				return false
			}
			tasks++
		}
		for _, c := range status.Standbys {
			if len(c.Inputs) == 0 || c.Inputs[0].Offset != int64(offset) {
				return false
			}
		}
	}
	return tasks == 4
}

// restored returns how many changelog records the tasks of an instance have read when they were
// opened.
func (s *peerScene) restored(instance string) (n int64) {
	for _, task := range s.apps[instance].Status().Tasks {
		n += task.Restored
	}
	return n
}

// feedKeys writes so many records to each partition, each with a key of its own.
func (s *peerScene) feedKeys(n int) {
	s.t.Helper()
	var records []*kgo.Record
	for i := range n {
		for p := range int32(4) {
			records = append(records, &kgo.Record{Topic: "in", Partition: p, Key: fmt.Appendf(nil, "p%d-%d", p, i), Value: []byte("v")})
		}
	}
	s.produce(s.t, records...)
}

// TestStandbyTakesOver: the tasks of an instance that dies go on at the copies, and read the rest
// of their changelogs only. Without copies they read all of it.
func TestStandbyTakesOver(t *testing.T) {
	for _, standbys := range []int{1, 0} {
		bubble(t, fmt.Sprint(standbys, " standbys"), func(t *testing.T) {
			const keys = 500
			s := pairOf(t, withStandbys(standbys))
			s.feedKeys(keys)
			s.await("the copies to be where the tasks are", func() bool {
				return s.atEnd(keys, "one", "two") && s.warm("one", 2*standbys) && s.warm("two", 2*standbys)
			})
			s.hosts["two"].Kill()
			s.abandon("two")
			s.await("all tasks at the instance that lives", func() bool { return s.has("one", 4) })
			switch n := s.restored("one"); {
			case standbys > 0 && n >= keys:
				t.Errorf("with copies %d records were restored", n)
			case standbys == 0 && n < 2*keys:
				t.Errorf("without copies only %d records were restored", n)
			}
			s.feedKeys(keys)
			s.await("the records to be processed", func() bool { return s.atEnd(2*keys, "one") })
			s.wantCounts(2, keys)
		})
	}
}

// wantCounts compares the counts of all keys that feedKeys has written at the instance "one".
func (s *peerScene) wantCounts(want int64, keys int) {
	s.t.Helper()
	for p := range int32(4) {
		view, err := txn.Read(s.apps["one"], topology.KeyValueStore("counts", schemas.String(), schemas.Int64()), p)
		if err != nil {
			s.t.Fatal(err)
		}
		seen := 0
		for e, err := range view.Store().All() {
			if err != nil {
				s.t.Fatal(err)
			}
			if seen++; e.Value != want {
				s.t.Errorf("partition %d: %s was counted %d times, want %d", p, e.Key, e.Value, want)
			}
		}
		if seen != keys {
			s.t.Errorf("partition %d has %d keys, want %d", p, seen, keys)
		}
		if err := view.Close(); err != nil {
			s.t.Error(err)
		}
	}
}

// TestTaskWaitsForCopy: an instance that joins gets its share of the tasks once it has warm copies
// of them, and reads next to nothing when it opens them. The tasks work where they are meanwhile.
func TestTaskWaitsForCopy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const keys = 500
		s := newPeerScene(t)
		set := func(cfg *txn.Config) { cfg.Standbys = 1 }
		s.start("one", set)
		s.await("all tasks", func() bool { return s.has("one", 4) })
		s.feedKeys(keys)
		s.await("the records to be processed", func() bool { return s.atEnd(keys, "one") })
		s.start("two", set)
		s.await("two tasks each, and copies of the others", func() bool {
			return s.balanced() && s.warm("one", 2) && s.warm("two", 2)
		})
		if n := s.restored("two"); n >= keys {
			t.Errorf("the instance that joined has restored %d records when it opened its tasks", n)
		}
		s.feedKeys(keys)
		s.await("everything where it belongs", func() bool { return s.atEnd(2*keys, "one", "two") })
		s.stop("two")
		s.await("all tasks again", func() bool { return s.has("one", 4) })
		s.wantCounts(2, keys)
	})
}

// TestStandbyDiskMax: copies that are not warm read no more once all copies take as much of the disk
// as they may, and the status says so. The tasks work where they are. Copies with room become warm.
func TestStandbyDiskMax(t *testing.T) {
	for _, bytes := range []int64{1, 1 << 30} {
		bubble(t, fmt.Sprint(bytes, " bytes"), func(t *testing.T) {
			const keys = 500
			s := newPeerScene(t)
			set := func(cfg *txn.Config) { cfg.Standbys, cfg.StandbyDiskMax = 1, bytes }
			s.start("one", set)
			s.await("all tasks", func() bool { return s.has("one", 4) })
			s.feedKeys(keys)
			s.await("the records to be processed", func() bool { return s.atEnd(keys, "one") })
			s.start("two", set)
			if bytes > 1 {
				s.await("copies that are warm, and tasks that move", func() bool { return s.balanced() && s.warm("one", 2) && s.warm("two", 2) })
				return
			}
			s.await("copies without room", func() bool {
				copies := s.apps["two"].Status().Standbys
				full := func(c txn.StandbyStatus) bool {
					return c.State == txn.StandbyFailing && strings.Contains(c.Reason, "StandbyDiskMax")
				}
				return len(copies) > 0 && !slices.ContainsFunc(copies, func(c txn.StandbyStatus) bool { return !full(c) })
			})
			s.feedKeys(keys)
			s.await("the records to be processed where the tasks are", func() bool { return s.has("one", 4) && s.tasksAt("one", 2*keys) })
		})
	}
}

// tasksAt says whether all tasks of an instance are at an offset.
func (s *peerScene) tasksAt(instance string, offset int64) bool {
	return !slices.ContainsFunc(s.apps[instance].Status().Tasks, func(t txn.TaskStatus) bool {
		return len(t.Inputs) == 0 || t.Inputs[0].Offset != offset
	})
}

// TestStandbyInMemory: a copy has the rows of a store in memory, and the instance that takes over
// does not read them again. That holds where the offsets are unstable for a while, and the task can
// take the copy late.
func TestStandbyInMemory(t *testing.T) {
	for _, late := range []time.Duration{0, 16 * time.Second} {
		bubble(t, fmt.Sprint("offsets unstable for ", late), func(t *testing.T) {
			const keys = 500
			s := newPeerScene(t)
			b := topology.NewBuilder("counting")
			in := topology.From(b, topology.Topic("in", schemas.String(), schemas.String()))
			counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64()).InMemory()
			topology.Process(in, "count", counts, countRecord).Into(topology.Topic("out", schemas.String(), schemas.Int64()))
			var err error
			if s.topology, err = b.Build(); err != nil {
				t.Fatal(err)
			}
			for _, instance := range []string{"one", "two"} {
				s.start(instance, func(cfg *txn.Config) { cfg.Standbys = 1 })
			}
			s.await("two tasks each, with copies", func() bool { return s.balanced() && s.warm("one", 2) && s.warm("two", 2) })
			s.feedKeys(keys)
			s.await("the copies to be where the tasks are", func() bool { return s.atEnd(keys, "one", "two") })
			s.unstableFor(late)
			s.hosts["two"].Kill()
			s.abandon("two")
			s.await("all tasks at the instance that lives", func() bool { return s.has("one", 4) })
			if n := s.restored("one"); n >= keys {
				t.Errorf("%d records were restored", n)
			}
			s.feedKeys(keys)
			s.await("the records to be processed", func() bool { return s.atEnd(2*keys, "one") })
			s.wantCounts(2, keys)
		})
	}
}

// unstableFor has coordinators answer for a time that no offset is stable.
func (s *peerScene) unstableFor(d time.Duration) {
	until := time.Now().Add(d)
	s.ControlKey(int16(kmsg.OffsetFetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		s.KeepControl()
		req := kreq.(*kmsg.OffsetFetchRequest)
		if !req.RequireStable || !time.Now().Before(until) {
			return nil, nil, false
		}
		return answerOffsets(req, func(string, *kmsg.OffsetFetchResponseGroupTopicPartition) int16 {
			return kerr.UnstableOffsetCommit.Code
		}), nil, true
	})
}

// answerOffsets answers for each partition what fill makes of it.
func answerOffsets(req *kmsg.OffsetFetchRequest, fill func(topic string, p *kmsg.OffsetFetchResponseGroupTopicPartition) int16) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	for _, g := range req.Groups {
		group := kmsg.NewOffsetFetchResponseGroup()
		group.Group = g.Group
		for _, of := range g.Topics {
			topic := kmsg.NewOffsetFetchResponseGroupTopic()
			topic.Topic = of.Topic
			for _, n := range of.Partitions {
				p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
				p.Partition, p.Offset = n, -1
				p.ErrorCode = fill(of.Topic, &p)
				topic.Partitions = append(topic.Partitions, p)
			}
			group.Topics = append(group.Topics, topic)
		}
		resp.Groups = append(resp.Groups, group)
	}
	return resp
}

// TestStandbyAfterFullDisk: copies fail while their disk is full, and follow once there is space,
// although the tasks of the instance have met no full disk.
func TestStandbyAfterFullDisk(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		disk := disktest.New(1 << 40)
		s := pairOf(t, func(instance string, cfg *txn.Config) {
			cfg.Standbys = 1
			if instance == "two" {
				*cfg = cfg.WithDatabases(func(o *pebblestore.Options) {
					o.FlushBytes, o.FlushInterval = 8<<10, 20*time.Millisecond
					disk.Use(o)
				})
			}
		})
		s.feedKeys(10)
		s.await("the copies to be where the tasks are", func() bool {
			return s.atEnd(10, "one", "two") && s.warm("one", 2) && s.warm("two", 2)
		})
		feed := func() {
			var records []*kgo.Record
			for i := range 500 {
				for _, c := range s.apps["two"].Status().Standbys {
					records = append(records, &kgo.Record{Topic: "in", Partition: c.ID.Partition, Key: fmt.Appendf(nil, "k%d", i), Value: []byte("v")})
				}
			}
			s.produce(t, records...)
		}
		disk.SetFree(0)
		s.await("the copies to fail", func() bool {
			feed()
			standbys := s.apps["two"].Status().Standbys
			fails := func(c txn.StandbyStatus) bool { return c.State == txn.StandbyFailing }
			return len(standbys) == 2 && fails(standbys[0]) && fails(standbys[1])
		})
		disk.SetFree(1 << 40)
		s.await("the copies to follow", func() bool { return s.warm("two", 2) })
		if !s.has("one", 2) || !s.has("two", 2) {
			t.Error("tasks have stopped")
		}
	})
}

// TestStandbyOfIdleTask: a copy whose owner commits nothing for longer than tombstones are kept has
// seen all of them. It goes on where it is, and is not restored in full.
func TestStandbyOfIdleTask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newPeerScene(t)
		s.start("one", nil)
		s.await("the topics", func() bool { return s.has("one", 4) })
		s.stop("one")
		retention := "300000"
		if _, err := kadm.NewClient(s.cl).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "delete.retention.ms", Value: &retention}},
			"counting-counts-changelog"); err != nil {
			t.Fatal(err)
		}
		for _, instance := range []string{"one", "two"} {
			s.start(instance, func(cfg *txn.Config) { cfg.Standbys = 1 })
		}
		follow := func(offset int) {
			t.Helper()
			s.await("the copies to be where the tasks are", func() bool {
				return s.atEnd(offset, "one", "two") && s.warm("one", 2) && s.warm("two", 2)
			})
		}
		s.feedKeys(10)
		follow(10)
		time.Sleep(10 * time.Minute)
		s.feedKeys(1)
		follow(11)
		for _, instance := range []string{"one", "two"} {
			s.wantNone(instance, "restored in full")
		}
	})
}

// TestStandbySettingChanges: instances that are restarted with standbys keep copies, although a
// static member that comes back begins no rebalance. Without standbys again they keep none.
func TestStandbySettingChanges(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := pairOf(t, func(_ string, cfg *txn.Config) { cfg.Remain = true })
		s.feedKeys(10)
		s.await("the records to be processed", func() bool { return s.atEnd(10, "one", "two") })
		for _, standbys := range []int{1, 0} {
			for _, instance := range []string{"one", "two"} {
				s.stop(instance)
				s.start(instance, func(cfg *txn.Config) { cfg.Remain, cfg.Standbys = true, standbys })
			}
			s.await("the copies that are asked for", func() bool {
				return s.balanced() && s.warm("one", 2*standbys) && s.warm("two", 2*standbys)
			})
		}
		s.wantNone("one", "ERROR")
		s.wantNone("two", "ERROR")
	})
}

// TestStandbyOfOlderCommit: a coordinator that loads answers with a commit from before the copies.
// They stay as they are, and follow once the answers are right again.
func TestStandbyOfOlderCommit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := pairOf(t, withStandbys(1))
		follow := func(offset int) {
			t.Helper()
			s.feedKeys(10)
			s.await("the copies to be where the tasks are", func() bool {
				return s.atEnd(offset, "one", "two") && s.warm("one", 2) && s.warm("two", 2)
			})
		}
		follow(10)
		older := s.answerOlder(t)
		follow(20)
		older.Store(true)
		s.await("the copies to fail", func() bool {
			standbys := s.apps["one"].Status().Standbys
			fails := func(c txn.StandbyStatus) bool {
				return c.State == txn.StandbyFailing && strings.Contains(c.Reason, "the last commit names")
			}
			return len(standbys) == 2 && fails(standbys[0]) && fails(standbys[1])
		})
		if !s.atEnd(20, "one", "two") {
			t.Error("a task or a copy has gone back")
		}
		older.Store(false)
		follow(30)
	})
}

// answerOlder has coordinators answer with the offsets of now, while the value is true, where they
// are not asked for stable ones.
func (s *peerScene) answerOlder(t *testing.T) *atomic.Bool {
	t.Helper()
	adm := kadm.NewClient(s.cl)
	now, err := adm.FetchOffsets(t.Context(), "counting")
	if err != nil {
		t.Fatal(err)
	}
	var older atomic.Bool
	s.ControlKey(int16(kmsg.OffsetFetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		s.KeepControl()
		req := kreq.(*kmsg.OffsetFetchRequest)
		if req.RequireStable || !older.Load() {
			return nil, nil, false
		}
		return answerOffsets(req, func(topic string, p *kmsg.OffsetFetchResponseGroupTopicPartition) int16 {
			at := now[topic][p.Partition]
			p.Offset, p.LeaderEpoch, p.Metadata = at.At, at.LeaderEpoch, &at.Metadata
			return 0
		}), nil, true
	})
	return &older
}
