package virtual

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/proxy"
)

// describe says in a few words what a frame is about, without keys and values of records.
func describe(f *proxy.Frame) string {
	name := kmsg.NameForKey(f.Key)
	if f.Direction == proxy.ToClient {
		return name + " " + describeReply(f)
	}
	req, err := f.Request()
	if err != nil {
		return name + " (" + err.Error() + ")"
	}
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		var parts []string
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				parts = append(parts, fmt.Sprintf("%s[%d] %d bytes", topicName(t.Topic, t.TopicID), p.Partition, len(p.Records)))
			}
		}
		return name + " " + text(r.TransactionID) + ": " + strings.Join(parts, ", ")
	case *kmsg.InitProducerIDRequest:
		return fmt.Sprintf("%s %s", name, text(r.TransactionalID))
	case *kmsg.EndTxnRequest:
		return fmt.Sprintf("%s %s producer %d/%d commit %t", name, r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Commit)
	case *kmsg.TxnOffsetCommitRequest:
		var parts []string
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				parts = append(parts, fmt.Sprintf("%s[%d] at %d", t.Topic, p.Partition, p.Offset))
			}
		}
		return fmt.Sprintf("%s %s producer %d/%d generation %d: %s", name, r.TransactionalID, r.ProducerID, r.ProducerEpoch,
			r.Generation, strings.Join(parts, ", "))
	case *kmsg.JoinGroupRequest:
		return fmt.Sprintf("%s member %q instance %s", name, r.MemberID, text(r.InstanceID))
	case *kmsg.SyncGroupRequest:
		return fmt.Sprintf("%s member %q generation %d", name, r.MemberID, r.Generation)
	}
	return name
}

func describeReply(f *proxy.Frame) string {
	resp, err := f.Response()
	if err != nil {
		return err.Error()
	}
	code := func(c int16) string {
		if err := kerr.TypedErrorForCode(c); err != nil {
			return err.Message
		}
		return "ok"
	}
	codes := map[string]int{}
	switch r := resp.(type) {
	case *kmsg.ProduceResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				codes[code(p.ErrorCode)]++
			}
		}
	case *kmsg.TxnOffsetCommitResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				codes[code(p.ErrorCode)]++
			}
		}
	case *kmsg.InitProducerIDResponse:
		return fmt.Sprintf("%s producer %d/%d", code(r.ErrorCode), r.ProducerID, r.ProducerEpoch)
	case *kmsg.EndTxnResponse:
		return code(r.ErrorCode)
	case *kmsg.JoinGroupResponse:
		return fmt.Sprintf("%s generation %d, member %q", code(r.ErrorCode), r.Generation, r.MemberID)
	case *kmsg.SyncGroupResponse:
		return code(r.ErrorCode)
	case *kmsg.LeaveGroupResponse:
		return code(r.ErrorCode)
	default:
		return ""
	}
	var parts []string
	for c, n := range codes {
		parts = append(parts, fmt.Sprintf("%d %s", n, c))
	}
	return strings.Join(parts, ", ")
}

func topicName(name string, id [16]byte) string {
	if name == "" {
		return fmt.Sprintf("topic %x", id[:4])
	}
	return name
}

func text(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}
