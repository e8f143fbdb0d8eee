package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestFormattedStorageIsCopied: a copy has everything that Kafka wrote, under ids of its own.
// Brokers that start on one are in the other tests, which have many of a kind.
func TestFormattedStorageIsCopied(t *testing.T) {
	const meta = "#\ncluster.id=theirs\nversion=1\ndirectory.id=that\nnode.id=1\n"
	first, second := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(first, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{metaProperties: meta, "bootstrap.checkpoint": "\x00\xff"} {
		if err := os.WriteFile(filepath.Join(first, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var f formatted
	if known, err := f.copy("broker", second, "ours"); known || err != nil {
		t.Fatalf("before any was kept: %t, %v", known, err)
	}
	if err := f.keep("broker", first); err != nil {
		t.Fatal(err)
	}
	if known, err := f.copy("controller", second, "ours"); known || err != nil {
		t.Fatalf("of another kind: %t, %v", known, err)
	}
	if known, err := f.copy("broker", second, "ours"); !known || err != nil {
		t.Fatalf("of the kind: %t, %v", known, err)
	}
	if got, err := os.ReadFile(filepath.Join(second, "bootstrap.checkpoint")); err != nil || string(got) != "\x00\xff" {
		t.Errorf("the copy of the checkpoint is %q, %v", got, err)
	}
	got, err := withIDs(meta, "ours", "this")
	if want := "#\ncluster.id=ours\nversion=1\ndirectory.id=this\nnode.id=1\n"; err != nil || string(got) != want {
		t.Errorf("the copy of the ids is %q, %v, want %q", got, err, want)
	}
	for _, other := range []string{"cluster.id=a\n", "clusterId=a\ndirectory.id=b\n"} {
		if _, err := withIDs(other, "ours", "this"); !errors.Is(err, errStorage) {
			t.Errorf("%q was understood: %v", other, err)
		}
	}
	if err := f.keep("empty", t.TempDir()); !errors.Is(err, errStorage) {
		t.Errorf("nothing was kept as a storage: %v", err)
	}
}
