//go:build onceward_failpoints

package failpoint

import (
	"context"
	"errors"
	"testing"
)

func TestHitCallsTheFunctionOfItsSet(t *testing.T) {
	var points []string
	s := New(func(_ context.Context, point string) error {
		points = append(points, point)
		return ErrRefused
	}, nil)
	if err := s.Hit(t.Context(), EndAfter); !s.Armed() || !errors.Is(err, ErrRefused) || !errors.Is(err, ErrInjected) {
		t.Errorf("armed: %t, hit: %v", s.Armed(), err)
	}
	other := New(nil, nil)
	if err := other.Hit(t.Context(), EndAfter); err != nil || other.Armed() {
		t.Errorf("armed without a function: %t, hit: %v", other.Armed(), err)
	}
	if len(points) != 1 || points[0] != "end-after" {
		t.Errorf("the function was called at %q", points)
	}
}

func TestBrokenMechanisms(t *testing.T) {
	s := New(nil, []string{"early", "age"})
	if s.Armed() || !s.AnyBroken() || !s.Broken(Early) || !s.Broken(Age) || s.Broken(Apply) || s.Check() != nil {
		t.Errorf("%+v: %v", s, s.Check())
	}
	if err := New(nil, []string{"early", "late"}).Check(); err == nil {
		t.Error("a mechanism that does not exist is taken")
	}
}
