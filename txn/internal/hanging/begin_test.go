package hanging

import (
	"testing"
	"time"

	"github.com/onceward/onceward/txn/internal/broker"
)

// TestBegin: logs are read from the begin of the transaction on, and not from that of an older one
// of the same producer.
func TestBegin(t *testing.T) {
	now := time.Now()
	at := func(e int16, ago time.Duration) broker.Transaction {
		return broker.Transaction{ProducerID: producer, Epoch: e, Started: now.Add(-ago)}
	}
	f := Finding{Transaction: Transaction{ProducerID: producer, Epoch: epoch}}
	f.Evidence.Before = []broker.Transaction{at(epoch-1, 100*time.Hour), at(epoch+1, time.Hour), at(epoch+3, time.Minute)}
	if got := begin([]*Finding{&f}); !got.Equal(now.Add(-time.Hour)) {
		t.Errorf("it began at %s, want an hour before %s", got, now)
	}
}
