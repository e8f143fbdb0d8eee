package cli

import (
	"testing"

	"github.com/onceward/onceward/processors/inbox"
)

// TestElsewhere is requirement C7 for those who ask for a status: each is that of rows, or it is
// said where else to look.
func TestElsewhere(t *testing.T) {
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
