package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// flips parses meta.json with each bit flipped in turn, and returns how many of them were refused,
// and the first that was read as something else.
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

// TestFieldsAreSpelledOut: a field that is missing is not zero, and one with other letters is not
// the field.
func TestFieldsAreSpelledOut(t *testing.T) {
	const (
		directory  = `{"format":1,"application":"app","instance":"i","fingerprint":"f","maxWorkers":2}`
		checkpoint = `{"format":1,"application":"app","subtopology":"s","partition":3,"takenAt":"2026-01-02T03:04:05Z",` +
			`"round":"none","state":"none","inputs":[],"stores":[]}`
	)
	for _, file := range []struct {
		name, valid string
		fields      fields
		parse       func([]byte) error
	}{
		{metaFile, directory, metaFields, func(b []byte) error { _, err := parseMeta(b); return err }},
		{checkpointFile, checkpoint, checkpointFields, func(b []byte) error { _, err := parseCheckpointMeta(b); return err }},
	} {
		if err := file.parse([]byte(file.valid)); err != nil {
			t.Fatal(err)
		}
		for _, field := range file.fields.required {
			var object map[string]any
			if err := json.Unmarshal([]byte(file.valid), &object); err != nil {
				t.Fatal(err)
			}
			value := object[field]
			for how, change := range map[string]func(){
				"missing": func() { delete(object, field) },
				"null":    func() { object[field] = nil },
				"shouted": func() { delete(object, field); object[strings.ToUpper(field)] = value },
				"twice":   func() { object[field], object[strings.ToUpper(field)] = value, value },
			} {
				delete(object, strings.ToUpper(field))
				change()
				data, err := json.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				if err := file.parse(data); !errors.Is(err, ErrCorrupt) {
					t.Errorf("%s, %s is %s: got %v, want ErrCorrupt", file.name, field, how, err)
				}
			}
		}
	}
}

// FuzzParseMeta: what is taken is written and read again as the same.
func FuzzParseMeta(f *testing.F) {
	data, err := encodeMeta(meta{Application: "payments", Instance: "0123456789abcdef", Fingerprint: "f00d", MaxWorkers: 12})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"format":1,"application":"crc32c","instance":"i","fingerprint":"\"crc32c\"","maxWorkers":0}`))
	f.Add([]byte(`{"format":1,"minor":7,"application":"app","instance":"i","fingerprint":"f","maxWorkers":2,"planet":"mars"}`))
	f.Add([]byte(`{"format":9}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseMeta(data)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrFormat) || m != (meta{}) {
				t.Fatalf("an error without a class, or with something: %v, %v", err, m)
			}
			return
		}
		written, err := encodeMeta(m)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseMeta(written)
		// These are the build's and the file's, not the directory's.
		again.Format, again.Minor, again.Sum, again.nextMeta = m.Format, m.Minor, m.Sum, m.nextMeta
		if err != nil || again != m {
			t.Fatalf("%+v was written as %s, which is %+v, %v", m, written, again, err)
		}
	})
}

// FuzzParseCheckpointMeta: what is taken is written and read again as the same.
func FuzzParseCheckpointMeta(f *testing.F) {
	p := Positions{Round: RoundID{4, 7, 0xbeef}, State: RoundID{4, 6, 0xbeef}}
	p.SetInput(Input{Topic: "in", Partition: 3, Offset: 12, StreamTime: NoTime})
	p.SetChangelog(Changelog{Store: "counts", TopicID: [16]byte{1, 2}, Applied: 9, Scanned: 10})
	m := newCheckpointMeta(KeyValues("counts", "names"), p)
	m.Format, m.Application, m.Subtopology, m.Partition = formatMajor, "payments", "ledger", 3
	data, err := json.Marshal(m)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(bytes.Replace(data, []byte(`"format":1,`), []byte(`"format":1,"minor":7,"planet":"mars",`), 1))
	f.Add([]byte(`{"format":9}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseCheckpointMeta(data)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrFormat) {
				t.Fatalf("an error without a class: %v", err)
			}
			return
		}
		written, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseCheckpointMeta(written)
		if err != nil || m.holds(again) != nil || !again.TakenAt.Equal(m.TakenAt) || again.Application != m.Application ||
			again.Subtopology != m.Subtopology || again.Partition != m.Partition || again.Minor != m.Minor {
			t.Fatalf("%+v was written as %s, which is %+v, %v", m, written, again, err)
		}
	})
}
