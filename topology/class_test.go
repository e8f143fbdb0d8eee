package topology_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

func TestClassNames(t *testing.T) {
	seen := map[string]bool{}
	for c := topology.Transient; c <= topology.Fatal; c++ {
		parsed, err := graph.ParseClass(c.String())
		if err != nil || parsed != c || seen[c.String()] {
			t.Errorf("class %d is %q, which is class %d: %v", c, c, parsed, err)
		}
		seen[c.String()] = true
	}
	for _, s := range []string{"", "Poison", "class(0)", "nonsense"} {
		if c, err := graph.ParseClass(s); err == nil {
			t.Errorf("%q is class %s", s, c)
		}
	}
	for i, want := range []string{"class(0)", "class(9)"} {
		if got := topology.Class(9 * i).String(); got != want {
			t.Errorf("an invalid class is %q, want %q", got, want)
		}
	}
}

func TestClassOf(t *testing.T) {
	plain := errors.New("plain")
	failed := topology.Fail(topology.Conflict, plain)
	if !errors.Is(failed, plain) || failed.Error() != "conflict: plain" {
		t.Errorf("Fail gives %v", failed)
	}
	if topology.Fail(topology.Conflict, nil) != nil {
		t.Error("Fail of nil is an error")
	}
	for name, test := range map[string]struct {
		err  error
		want topology.Class
	}{
		"nil":              {nil, 0},
		"plain":            {plain, topology.Poison},
		"reason":           {schemas.Reason("why"), topology.Poison},
		"failed":           {failed, topology.Conflict},
		"wrapped":          {fmt.Errorf("while: %w", failed), topology.Conflict},
		"outermost counts": {topology.Fail(topology.Fatal, failed), topology.Fatal},
		"invalid class":    {topology.Fail(0, plain), topology.Poison},
		"failure":          {&topology.Failure{Class: topology.Overload, Err: plain}, topology.Overload},
	} {
		if got := topology.ClassOf(test.err); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
