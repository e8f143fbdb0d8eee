package transition

import (
	"fmt"
	"strings"
	"testing"
)

func TestMachineCheck(t *testing.T) {
	many := map[string][]string{}
	for i := range 256 {
		many[fmt.Sprint(i)] = []string{fmt.Sprint(i + 1)}
	}
	many["255"] = nil
	for want, m := range map[string]Machine[string]{
		"the machine has 256 states; it takes 1 to 255": {Initial: []string{"0"}, Next: many},
		"the machine has no initial state":              {Next: map[string][]string{"a": nil}},
		`initial: "b" is no key of Next, which has every state, final ones with nil`: {
			Initial: []string{"a", "b"}, Next: map[string][]string{"a": nil}},
		`initial: "a" is there twice`: {Initial: []string{"a", "a"}, Next: map[string][]string{"a": nil}},
		`after "a": "b" is no key of Next, which has every state, final ones with nil`: {
			Initial: []string{"a"}, Next: map[string][]string{"a": {"b"}}},
		`after "a": "a" is there twice`: {Initial: []string{"a"}, Next: map[string][]string{"a": {"a", "a"}}},
		`a state is ""; that stands for an aggregate that is not there`: {
			Initial: []string{"a"}, Next: map[string][]string{"a": {""}, "": nil}},
		`"a\xff" is no name of a state; it takes valid UTF-8 of 1 to 255 bytes`: {
			Initial: []string{"a\xff"}, Next: map[string][]string{"a\xff": nil}},
		`no transition leads to the state "b"` + "\n" + `no transition leads to the state "c"`: {
			Initial: []string{"a"}, Next: map[string][]string{"a": nil, "b": {"c"}, "c": {"b"}}},
	} {
		if err := m.check(); err == nil || err.Error() != want {
			t.Errorf("check: %v, want %s", err, want)
		}
	}
	long := strings.Repeat("x", stateBytesMax)
	if err := (Machine[string]{Initial: []string{long}, Next: map[string][]string{long: nil}}).check(); err != nil {
		t.Error(err)
	}
	delete(many, "255")
	many["254"] = nil
	if err := (Machine[string]{Initial: []string{"0"}, Next: many}).check(); err != nil {
		t.Error(err)
	}
}

// TestRulesAreACopy: what the user does to the machine afterwards changes nothing.
func TestRulesAreACopy(t *testing.T) {
	m := Machine[string]{Initial: []string{"a"}, Next: map[string][]string{"a": {"b"}, "b": nil}}
	r := rulesOf(m, false)
	m.Initial[0], m.Next["a"][0], m.Next["b"] = "x", "y", []string{"a"}
	if refusal, _ := r.judge(Transition[string]{To: "a"}, Aggregate[string]{}, false); refusal != 0 {
		t.Error(refusal)
	}
	if refusal, _ := r.judge(Transition[string]{From: "a", To: "b"}, Aggregate[string]{State: "a"}, true); refusal != 0 {
		t.Error(refusal)
	}
	if r.has("") || r.has("y") || !r.has("b") || r.reach["b"]["a"] {
		t.Error("the rules have changed")
	}
}
