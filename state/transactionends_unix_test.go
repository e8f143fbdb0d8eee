//go:build unix

package state

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestSlowDiskHoldsUpNoOtherCall: while the ends of transactions are written, the directory is there
// for others: signs of life and rebalances ask it for the instance.
func TestSlowDiskHoldsUpNoOtherCall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	d, err := OpenDirectory(path, DirectoryOptions{Application: "app"})
	if err != nil {
		t.Fatal(err)
	}
	slow := filepath.Join(path, endsTempFile) // a write to it ends when this test reads it
	if err := syscall.Mkfifo(slow, 0o600); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() {
		written <- d.SetTransactionEnds(TransactionEnds{Ends: make([]TransactionEnd, 10_000)})
	}()
	disk, err := os.Open(slow) // once the writer has
	if err != nil {
		t.Fatal(err)
	}
	if d.mu.TryLock() {
		d.mu.Unlock()
	} else {
		t.Error("the directory is locked while the ends of transactions are written")
	}
	if d.endsMu.TryLock() {
		d.endsMu.Unlock()
		t.Error("nothing is written: the test tests nothing")
	}
	if _, err := io.Copy(io.Discard, disk); err != nil {
		t.Error(err)
	}
	<-written // a pipe cannot be synced
	if err := disk.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
