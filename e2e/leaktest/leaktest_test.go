package leaktest

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestFind: a goroutine that ends late, for goleak, is none that outlives anything; one that does
// not end is found.
func TestFind(t *testing.T) {
	before := goleak.IgnoreCurrent()
	late := make(chan struct{})
	time.AfterFunc(time.Second, func() { close(late) })
	go func() { <-late }()
	if err := Find(Patience, before); err != nil {
		t.Errorf("a goroutine that ends after a second: %v", err)
	}
	select {
	case <-late:
	default:
		t.Error("it was not waited for: the test tested nothing")
	}
	end := make(chan struct{})
	defer close(end)
	go func() { <-end }()
	if err := Find(0, before); err == nil || !strings.Contains(err.Error(), "TestFind") {
		t.Errorf("a goroutine that goes on: %v", err)
	}
}
