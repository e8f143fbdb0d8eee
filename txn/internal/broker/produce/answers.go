package produce

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/txn/internal/broker/batch"
)

// errUnanswered is a partition that an answer does not name.
var errUnanswered = errors.New("the broker has not answered for the partition")

// answered takes the answer to a request, or the error instead of one.
func (s *Sender) answered(sent []shipment, answer kmsg.Response, err error) {
	if s.ctx.Err() != nil {
		s.fail(ErrClosed)
		return
	}
	if err != nil {
		for _, one := range sent {
			s.retry(one.lane, err, lookup)
		}
		return
	}
	resp := answer.(*kmsg.ProduceResponse)
	type named struct {
		id   [16]byte
		name string
		at   int32
	}
	parts := make(map[named]*kmsg.ProduceResponseTopicPartition, len(sent))
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			parts[named{t.TopicID, t.Topic, t.Partitions[j].Partition}] = &t.Partitions[j]
		}
	}
	for _, one := range sent {
		key := named{name: one.batch.Topic, at: one.batch.Partition}
		if resp.Version >= versionIDs {
			key = named{id: one.id, at: one.batch.Partition}
		}
		p := parts[key]
		if p == nil {
			s.retry(one.lane, errUnanswered, lookup)
			continue
		}
		s.judged(one, p)
		if s.failed != nil {
			return
		}
	}
}

// judged does what the answer for a partition asks for.
func (s *Sender) judged(one shipment, p *kmsg.ProduceResponseTopicPartition) {
	err := kerr.ErrorForCode(p.ErrorCode)
	switch v := judge(err); v {
	case accepted:
		s.acknowledged(one.lane, one.batch, p.BaseOffset)
	case duplicate:
		s.acknowledged(one.lane, one.batch, -1) // what such an answer has as an offset is not that of the batch
	case failed:
		s.fail(&Error{one.lane.Destination, err})
	default:
		if led := p.CurrentLeader; v == lookup && led.LeaderID >= 0 && led.LeaderEpoch > one.lane.leaderEpoch {
			one.lane.leader, one.lane.leaderEpoch = led.LeaderID, led.LeaderEpoch
			return
		}
		s.retry(one.lane, err, v)
	}
}

// retry has the first batch of a lane sent again.
func (s *Sender) retry(l *lane, err error, v verdict) {
	l.failures++
	s.last = &Error{l.Destination, err}
	pause := s.cfg.Pause(l.failures)
	if v != unknown {
		l.unknown = 0
	}
	switch v {
	case early:
		pause = earlyPause(l.failures)
	case unknown:
		if l.unknown++; l.unknown > unknownMax {
			s.fail(&Error{l.Destination, err})
			return
		}
		l.leader = -1
	case lookup:
		l.leader = -1
	case accepted, duplicate, again, failed:
	}
	l.notBefore = time.Now().Add(pause)
}

// missing notes that a lookup has not found a partition.
func (s *Sender) missing(at batch.Destination, err error) {
	l := s.lanes[at]
	s.last = &Error{at, err}
	if l.missed++; l.missed > unknownMax {
		s.fail(s.last)
	}
}
