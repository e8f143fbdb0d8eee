package state_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/state"
)

// ends are two ends of transactions; of one the coordinator did not say when it began.
func ends() state.TransactionEnds {
	return state.TransactionEnds{
		Cluster: "cluster", RoundsTopic: [16]byte{1, 2, 15: 3},
		Ends: []state.TransactionEnd{
			{TransactionalID: "app~i~0~0", ProducerID: 1, Epoch: 6, State: "CompleteCommit", Started: time.UnixMilli(1_700_000_000_123)},
			{TransactionalID: `app~"crc32c"~0~1`, ProducerID: 1 << 40, Epoch: 32_767, State: "PrepareAbort"},
		},
	}
}

// TestTransactionEnds: what is stored comes back as it was, also by the next incarnation. Without ends
// there is no file.
func TestTransactionEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	d := openDirectory(t, path, state.DirectoryOptions{Application: "app"})
	want := func(want state.TransactionEnds) {
		t.Helper()
		if got, err := d.TransactionEnds(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("stored are %+v, %v; want %+v", got, err, want)
		}
	}
	want(state.TransactionEnds{})
	if err := d.SetTransactionEnds(state.TransactionEnds{Cluster: "cluster"}); err != nil {
		t.Errorf("to store none: %v", err)
	}
	one := ends()
	one.Ends = one.Ends[:1]
	for _, e := range []state.TransactionEnds{ends(), one} {
		if err := d.SetTransactionEnds(e); err != nil {
			t.Fatal(err)
		}
		want(e)
	}
	// A replacement that a crash has left is not read.
	if err := os.WriteFile(filepath.Join(path, "transactions.json.tmp"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.SetTransactionEnds(ends()); !errors.Is(err, state.ErrClosed) {
		t.Errorf("to store in a closed directory: %v", err)
	}
	d = openDirectory(t, path, state.DirectoryOptions{Application: "app"})
	want(one)
	if err := d.SetTransactionEnds(state.TransactionEnds{}); err != nil {
		t.Fatal(err)
	}
	want(state.TransactionEnds{})
	if _, err := os.Stat(filepath.Join(path, "transactions.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without ends the file is there: %v", err)
	}
}

// TestDamagedTransactionEnds: every file that is not exactly what was stored is refused, whichever
// byte differs. The error names the directory and the file. It can be set aside.
func TestDamagedTransactionEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	file := filepath.Join(path, "transactions.json")
	d := openDirectory(t, path, state.DirectoryOptions{Application: "app"})
	if err := d.SetTransactionEnds(ends()); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.TrimSpace(string(good))
	damaged := map[string]string{
		"empty":       "",
		"more":        text + "{}",
		"an array":    "[]",
		"null":        "null",
		"no checksum": strings.Replace(text, `"crc32c"`, `"crc32d"`, 1),
		"too large":   text + strings.Repeat(" ", 2<<20),
		"no version":  strings.Replace(text, `"format": 1`, `"format": 0`, 1),
	}
	for i := range text {
		damaged[fmt.Sprintf("cut at %d", i)] = text[:i]
		changed := []byte(text)
		changed[i] ^= 1
		damaged[fmt.Sprintf("bit of %d", i)] = string(changed)
	}
	for name, content := range damaged {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := d.TransactionEnds()
		if !errors.Is(err, state.ErrCorrupt) || len(got.Ends) > 0 || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "transactions.json") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if err := os.WriteFile(file, []byte(strings.Replace(text, `"format": 1`, `"format": 2, "more": true`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.TransactionEnds(); !errors.Is(err, state.ErrFormat) {
		t.Errorf("of a newer build: %v", err)
	}
	name, err := d.SetTransactionEndsAside()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(path, name)); err != nil {
		t.Error(err)
	}
	if got, err := d.TransactionEnds(); err != nil || len(got.Ends) > 0 {
		t.Errorf("after it was set aside: %+v, %v", got, err)
	}
	if _, err := d.SetTransactionEndsAside(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("to set aside what is not there: %v", err)
	}
}

// TestTooManyTransactionEnds: what could not be read is not written.
func TestTooManyTransactionEnds(t *testing.T) {
	d := openDirectory(t, filepath.Join(t.TempDir(), "state"), state.DirectoryOptions{Application: "app"})
	e := ends()
	if err := d.SetTransactionEnds(e); err != nil {
		t.Fatal(err)
	}
	many := ends()
	for range 20_000 {
		many.Ends = append(many.Ends, e.Ends[0])
	}
	if err := d.SetTransactionEnds(many); err == nil {
		t.Error("a file is written that is too large to be read")
	}
	if got, err := d.TransactionEnds(); err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("stored are %d, %v", len(got.Ends), err)
	}
}
