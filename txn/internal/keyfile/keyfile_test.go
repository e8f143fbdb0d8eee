package keyfile_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/txn/internal/keyfile"
	"github.com/onceward/onceward/txn/internal/pkitest"
	"github.com/onceward/onceward/txn/security"
)

var clock = time.Now()

// write gives a file a content, and another time than before: a coarse clock can give two contents
// of equal size one time.
func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	clock = clock.Add(time.Second)
	if err := os.Chtimes(name, clock, clock); err != nil {
		t.Fatal(err)
	}
}

// TestMistakesNameFieldAndFile: and nothing of the content.
func TestMistakesNameFieldAndFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name, content string) keyfile.Setting {
		name = filepath.Join(dir, name)
		write(t, name, content)
		return keyfile.Setting{Field: "X.File", Name: name}
	}
	ca, valid := pkitest.NewAuthority(t, "ca"), time.Now().Add(time.Hour)
	one, two := ca.Issue("one", valid), ca.Issue("two", valid)
	const canary = "canary"
	for name, read := range map[string]func() error{
		"missing": func() error { _, err := keyfile.Secret("X.File", filepath.Join(dir, "missing")); return err },
		"empty":   func() error { _, err := keyfile.Secret("X.File", at("empty", "\n").Name); return err },
		"large": func() error {
			_, err := keyfile.Secret("X.File", at("large", strings.Repeat(canary, 1<<18)).Name)
			return err
		},
		"no PEM": func() error { _, err := keyfile.Authorities("X.File", at("no PEM", canary).Name); return err },
		"no pair": func() error {
			_, err := keyfile.Pair(keyfile.Setting{Field: "X.File", Name: one.CertFile}, keyfile.Setting{Field: "X.Key", Name: two.KeyFile})
			return err
		},
		"encrypted": func() error {
			_, err := keyfile.Pair(keyfile.Setting{Field: "X.Cert", Name: one.CertFile}, at("encrypted", "ENCRYPTED"+canary))
			return err
		},
	} {
		err := read()
		if mistake, ok := errors.AsType[*security.Error](err); !ok || mistake.Field != "X.File" || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWatched: a value is read again when its files change. Files that cannot be used leave the
// last good one, with one line, and are tried again.
func TestWatched(t *testing.T) {
	name := filepath.Join(t.TempDir(), "secret")
	var lines bytes.Buffer
	reads := 0
	var fails error
	read := func() (security.Secret, error) {
		reads++
		if fails != nil {
			return security.Secret{}, fails
		}
		return keyfile.Secret("X.File", name)
	}
	log := slog.New(slog.NewTextHandler(&lines, nil))
	if _, err := keyfile.Watch(log, read, name); err == nil {
		t.Error("a missing file is no mistake at start")
	}
	write(t, name, "one\r\n")
	w, err := keyfile.Watch(log, read, name, "")
	if err != nil {
		t.Fatal(err)
	}
	reads = 0
	want := func(text string, times, warnings int) {
		t.Helper()
		for range 3 {
			if got := w.Current().Reveal(); got != text {
				t.Errorf("%q, want %q", got, text)
			}
		}
		if n := strings.Count(lines.String(), "cannot be used"); reads != times || n != warnings {
			t.Errorf("read %d times with %d warnings, want %d and %d", reads, n, times, warnings)
		}
	}
	want("one", 0, 0)
	write(t, name, "two")
	want("two", 1, 0)
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	want("two", 4, 1)
	write(t, name, "three")
	want("three", 5, 1)
	fails = errors.New("too many open files")
	write(t, name, "four!")
	want("three", 8, 2)
	fails = nil // the file is as it was
	want("four!", 9, 2)
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	write(t, name+".new", "five!")
	if err := os.Chtimes(name+".new", info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
	want("five!", 10, 2)
}
