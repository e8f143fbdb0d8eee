package txn_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/txn"
)

// TestNoControl: an instance listens in its state directory unless NoControl is set, and processes
// records in either case. The socket is a real one, and so are those of the broker.
func TestNoControl(t *testing.T) {
	for name, without := range map[string]bool{"with": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			b := newRealBroker(t, 1, "in", "out")
			dir := t.TempDir()
			start(t, copyTopology(t, "out"), b.config(txn.Config{StateDir: dir, Workers: 1, NoControl: without}))
			b.produce(t, &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("v")})
			b.read(t, "out", 1)
			_, err := os.Stat(filepath.Join(dir, "control.sock"))
			if os.IsNotExist(err) != without {
				t.Errorf("looking for the socket: %v", err)
			}
			if _, err := txn.InstanceStatus(t.Context(), dir); (err != nil) != without {
				t.Errorf("asking for the status: %v", err)
			}
		})
	}
}
