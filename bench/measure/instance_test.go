package measure

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const envInstance = "ONCEWARD_MEASURE_INSTANCE"

type instanceSettings struct {
	Says string
	Ends bool // by itself
}

// TestInstance: an instance is killed, stopped and started again; an end by itself is told once.
func TestInstance(t *testing.T) {
	i := &Instance{
		Name: "the child", Variable: envInstance, Told: instanceSettings{Says: "alive"}, LogPath: filepath.Join(t.TempDir(), "log"),
	}
	t.Cleanup(func() { _ = i.Kill() }) // where the test has failed before
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for life, end := range []func() error{i.Kill, func() error { return i.Stop(ctx) }} {
		if err := i.Start(); err != nil {
			t.Fatal(err)
		}
		for lives := 0; lives <= life; lives = strings.Count(Tail(i.LogPath), "alive") { // until it can be told
			if err := i.Ended(); err != nil || ctx.Err() != nil {
				t.Fatalf("%v, %v", err, ctx.Err())
			}
			time.Sleep(time.Millisecond) // polls
		}
		if err := end(); err != nil {
			t.Errorf("the end of life %d: %v", life, err)
		}
	}
	if err := i.Ended(); err != nil || i.CPU <= 0 {
		t.Errorf("down, it has ended with %v after %s", err, i.CPU)
	}
	i.Told = instanceSettings{Ends: true}
	if err := i.Start(); err != nil {
		t.Fatal(err)
	}
	var err error
	for err = i.Ended(); err == nil && ctx.Err() == nil; err = i.Ended() {
		time.Sleep(time.Millisecond) // polls
	}
	if err == nil || !strings.Contains(err.Error(), "the child has ended by itself with 0") {
		t.Errorf("of an end by itself it says %v", err)
	}
	if err := i.Ended(); err != nil {
		t.Errorf("once told, it says again %v", err)
	}
}
