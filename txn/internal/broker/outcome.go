package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Outcome is what an answer, or its absence, means for the transaction that it is about.
type Outcome uint8

// The closed set.
const (
	// Accepted: the broker answered with success, for every partition.
	Accepted Outcome = iota
	// Refused: the transaction cannot commit, and its producer can abort it.
	Refused
	// Lost: the producer's state is unknown or fenced; it has to be settled.
	Lost
	// InDoubt: a commit was sent and not answered with success.
	InDoubt
)

func (o Outcome) String() string {
	switch o {
	case Accepted:
		return "accepted"
	case Refused:
		return "refused"
	case Lost:
		return "lost"
	case InDoubt:
		return "in doubt"
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// Unreachable says that a request has not come to an answer: the connection failed, or the broker
// is starting, ending or handing over. Asked again it may succeed.
func Unreachable(err error) bool {
	var netErr net.Error
	var closed *kgo.ErrFirstReadEOF
	switch {
	case err == nil, Permanent(err), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case errors.As(err, &netErr), errors.As(err, &closed), errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
		return true
	default:
		return kgo.IsRetryableBrokerErr(err) || kerr.IsRetriable(err)
	}
}

// ProduceError is a record that was not written. Which record of the partition is at fault it does
// not say: the client fails every record that it still holds for a partition together.
type ProduceError struct {
	Topic     string
	Partition int32
	Err       error
}

func (e *ProduceError) Error() string {
	return fmt.Sprintf("producing to %s[%d]: %v", e.Topic, e.Partition, e.Err)
}

// Unwrap returns the cause.
func (e *ProduceError) Unwrap() error { return e.Err }
