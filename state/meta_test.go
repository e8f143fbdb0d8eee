package state

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// flips parses meta.json with each bit flipped in turn, and returns how many of them were refused, and the first that was read as
// something else.
func flips(t *testing.T, data []byte) (refused int, wrong string) {
	t.Helper()
	want, err := parseMeta(data)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 * len(data) {
		changed := bytes.Clone(data)
		changed[i/8] ^= 1 << (i % 8)
		got, err := parseMeta(changed)
		got.Sum = want.Sum
		switch {
		case errors.Is(err, ErrCorrupt), errors.Is(err, ErrFormat):
			refused++
		case err != nil:
			t.Errorf("bit %d: %v", i, err)
		case got != want && wrong == "":
			wrong = string(changed)
		}
	}
	return refused, wrong
}

// TestMetaWithAFlippedBit: the identity of a directory is never read wrong.
func TestMetaWithAFlippedBit(t *testing.T) {
	data, err := encodeMeta(meta{Application: "payments", Instance: "0123456789abcdef", Fingerprint: "f00d", MaxWorkers: 12})
	if err != nil {
		t.Fatal(err)
	}
	refused, wrong := flips(t, data)
	if wrong != "" {
		t.Errorf("this was taken:\n%s", wrong)
	}
	if refused < 6*len(data) {
		t.Errorf("%d of %d flips were refused: what is not refused is white space", refused, 8*len(data))
	}
}

// TestMetaWithAFlippedBitControl: without the checksum some flips go unnoticed.
func TestMetaWithAFlippedBitControl(t *testing.T) {
	data, err := encodeMeta(meta{Application: "payments", Instance: "0123456789abcdef", Fingerprint: "f00d", MaxWorkers: 12})
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(data, []byte(metaSumKey))
	bare := strings.TrimRight(string(data[:at]), ", \n") + "}"
	if _, wrong := flips(t, []byte(bare)); wrong == "" {
		t.Error("nothing was read wrong: the test would not notice")
	}
}
