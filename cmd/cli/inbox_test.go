package cli

import (
	"testing"

	"github.com/onceward/onceward/processors/inbox"
)

// TestStatusesWithoutRowsNameAPlace is requirement C7 for operators who ask for a status: either
// rows have it, or the command says where to look.
func TestStatusesWithoutRowsNameAPlace(t *testing.T) {
	ofRows := map[inbox.Status]bool{}
	for o := inbox.Accepted; o <= inbox.Disputed; o++ {
		ofRows[o.Status()] = true
	}
	for s := inbox.Received; s <= inbox.Superseded; s++ {
		list := inboxListCommand{Status: []string{s.String()}}
		if only, err := list.statuses(); (err == nil) != ofRows[s] || err == nil && len(only) != 1 {
			t.Errorf("%s: %q, %v", s, only, err)
		}
	}
}

// TestChosen: the one that is meant, if the instance has it; without a name the only one.
func TestChosen(t *testing.T) {
	for _, c := range []struct {
		given string
		there []string
		want  string
		fails string
	}{
		{"a", []string{"a", "b"}, "a", ""},
		{"", []string{"b"}, "b", ""},
		{"c", []string{"a", "b"}, "", `the instance has no thing "c"; it has a, b`},
		{"c", nil, "", `the instance has no thing "c"; it has none`},
		{"", nil, "", "the instance has no thing"},
		{"", []string{"a", "b"}, "", "the instance has more than one thing; choose with --thing: a, b"},
	} {
		got, err := chosen("thing", "--thing", c.given, c.there)
		if got != c.want || (err != nil) != (c.fails != "") || err != nil && (err.Error() != c.fails || codeOf(err) != codeUsage) {
			t.Errorf("%q of %q: %q, %v", c.given, c.there, got, err)
		}
	}
}

// TestBinaryID: only a UUID is looked for in hexadecimal digits too. The id A-1 of one event must
// not find the event a1.
func TestBinaryID(t *testing.T) {
	for id, want := range map[string]string{
		"FF000102-0304-0506-0708-090A0B0C0D0E": "ff000102030405060708090a0b0c0d0e",
		"A-1":                                  "", "-": "", "": "", "ff00": "", "FF000102-03040506-0708-090A-0B0C0D0E0F10": "",
	} {
		if stored, binary := binaryID(id); binary != (want != "") || binary && stored != want {
			t.Errorf("%q: %q, %v", id, stored, binary)
		}
	}
}
