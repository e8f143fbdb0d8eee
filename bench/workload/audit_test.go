package workload

import (
	"slices"
	"strings"
	"testing"
)

// audited is a run with evidence: the inputs with their positions, and what the evidence of each
// partition is.
type audited struct {
	inputs  [testPartitions][]Record
	entries [testPartitions][]Record
}

func runAudited(t *testing.T, w Workload, n int) (a audited) {
	t.Helper()
	d, inputs := pipe(t, w, inputOf(t, w), n)
	return audited{inputs: inputs, entries: byPartition(t, d, EvidenceTopic("out"))}
}

// judge judges as a check does.
func (a audited) judge() (entries, posted int64, err error) {
	audit := NewAudit("judged", "in")
	for _, r := range slices.Concat(a.entries[:]...) {
		if err := audit.Entry(r); err != nil {
			return 0, 0, err
		}
	}
	for p, inputs := range a.inputs {
		for offset, r := range inputs {
			if err := audit.Input(r, int32(p), int64(offset)); err != nil {
				return 0, 0, err
			}
		}
	}
	return audit.Done()
}

// TestAudit: the evidence of a workload is right in the eyes of its judge, also where the run has
// ended before its input, and each way to be wrong is seen.
func TestAudit(t *testing.T) {
	w, err := Find("ledger-evidence")
	if err != nil {
		t.Fatal(err)
	}
	a := runAudited(t, w, 2000)
	entries, posted, err := a.judge()
	if err != nil {
		t.Fatalf("the evidence is wrong: %v", err)
	}
	if posted < 1500 || posted >= 2000 || entries != 2000+posted { // some are duplicates
		t.Errorf("there are %d entries, and %d events are posted", entries, posted)
	}
	longer := a
	extra := AccountOf(1)
	longer.inputs[0] = append(slices.Clone(a.inputs[0]), Record{Key: extra[:], Value: golden.Append(nil)})
	if _, _, err := longer.judge(); err != nil {
		t.Errorf("with an input that was not processed: %v", err)
	}
	replace := func(old, with string) func(o []Record) []Record {
		return func(o []Record) []Record {
			for i := range o {
				if changed := strings.Replace(string(o[i].Value), old, with, 1); changed != string(o[i].Value) {
					o[i].Value = []byte(changed)
					return o
				}
			}
			return nil
		}
	}
	for name, spoil := range map[string]func(o []Record) []Record{
		"the first is lost":     func(o []Record) []Record { return o[1:] },
		"one is lost":           func(o []Record) []Record { return slices.Delete(o, len(o)/2, len(o)/2+1) },
		"one is there twice":    func(o []Record) []Record { return slices.Insert(o, len(o)/2, o[len(o)/2]) },
		"a row is another":      func(o []Record) []Record { o[7].Key = flipped(o[7].Key, 0); return o },
		"one is no entry":       func(o []Record) []Record { o[7].Value = o[7].Value[1:]; return o },
		"a duplicate is called": replace(`"outcome":"duplicates"`, `"outcome":"accepted"`),
		"an accepted is called": replace(`"outcome":"accepted"`, `"outcome":"duplicates"`),
		"another application":   replace(`"application":"judged"`, `"application":"other"`),
		"another mode":          replace(`"mode":"LIVE"`, `"mode":"REPLAY"`),
		"another position":      replace(`"offset":1`, `"offset":2`),
		"a version is skipped":  replace(`"after":2`, `"after":3`),
		"another node":          replace(`"node":"inbox"`, `"node":"outbox"`),
	} {
		spoiled := a
		if spoiled.entries[0] = spoil(slices.Clone(a.entries[0])); spoiled.entries[0] == nil {
			t.Errorf("there is nothing to spoil: %s", name)
		}
		if _, _, err := spoiled.judge(); err == nil {
			t.Errorf("evidence was taken for right: %s", name)
		}
	}
}
