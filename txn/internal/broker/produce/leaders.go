package produce

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/txn/internal/backoff"
)

// look looks up the leaders of lanes without one, until there are none. It pauses before it asks for
// the same topics again.
func (s *Sender) look() {
	for failures := 0; ; {
		s.mu.Lock()
		names := s.lost()
		if len(names) == 0 {
			s.looking = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		resp, err := s.ask(names)
		s.mu.Lock()
		if s.failed == nil {
			s.found(names, resp, err)
			s.dispatch()
			s.notify()
		}
		again := false
		for name := range s.lost() {
			again = again || names[name]
		}
		s.mu.Unlock()
		if !again {
			continue
		}
		failures++
		_ = backoff.Sleep(s.ctx, s.cfg.Pause(failures)) // once it has ended, nothing is lost
	}
}

// lost returns the topics of lanes whose leader is not known.
func (s *Sender) lost() map[string]bool {
	names := map[string]bool{}
	for _, l := range s.active {
		if l.leader < 0 && len(l.queue) > 0 {
			names[l.Topic] = true
		}
	}
	return names
}

func (s *Sender) ask(names map[string]bool) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	for name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	return req.RequestWith(s.ctx, s.cfg.Client)
}

// found takes the answer to a lookup of topics, or the error instead of one. It says nothing of lanes
// of other topics, which have lost their leader since.
func (s *Sender) found(names map[string]bool, resp *kmsg.MetadataResponse, err error) {
	if err != nil {
		s.last = fmt.Errorf("looking up leaders: %w", err)
		return
	}
	topics := map[string]*kmsg.MetadataResponseTopic{}
	for i := range resp.Topics {
		if t := &resp.Topics[i]; t.Topic != nil {
			topics[*t.Topic] = t
		}
	}
	for _, l := range append([]*lane(nil), s.active...) { // a failure empties active
		if l.leader >= 0 || len(l.queue) == 0 || !names[l.Topic] {
			continue
		}
		t := topics[l.Topic]
		switch err := s.usable(l.Topic, t); {
		case err == nil:
			s.led(l, t)
		case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
			s.missing(l.Destination, err)
		case kerr.IsRetriable(err):
			s.last = &Error{l.Destination, err}
		default:
			s.fail(&Error{l.Destination, err})
		}
		if s.failed != nil {
			return
		}
	}
}

// usable returns why nothing can be sent to a topic.
func (s *Sender) usable(name string, t *kmsg.MetadataResponseTopic) error {
	if t == nil {
		return kerr.UnknownTopicOrPartition
	}
	if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
		return err
	}
	id, known := s.ids[name]
	if known && id != t.TopicID {
		return fmt.Errorf("the topic was deleted and created again: %w", kerr.UnknownTopicID)
	}
	s.ids[name] = t.TopicID
	return nil
}

// led takes the leader of a partition.
func (s *Sender) led(l *lane, t *kmsg.MetadataResponseTopic) {
	for i := range t.Partitions {
		p := &t.Partitions[i]
		if p.Partition != l.Partition {
			continue
		}
		l.missed = 0
		if p.Leader < 0 {
			s.last = &Error{l.Destination, kerr.LeaderNotAvailable}
			return
		}
		l.leader, l.leaderEpoch = p.Leader, p.LeaderEpoch
		return
	}
	s.missing(l.Destination, fmt.Errorf("the topic has %d partitions", len(t.Partitions)))
}
