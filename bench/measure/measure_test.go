package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

const envChild = "ONCEWARD_MEASURE_CHILD"

type childSettings struct{ Fail bool }

// TestMain lets the test binary be a child too.
func TestMain(m *testing.M) {
	Run(envChild, func(s childSettings) error {
		if s.Fail {
			return errors.New("it went wrong")
		}
		err := errors.Join(Report(map[string]int{"answer": 42}), AwaitLine(), Report(map[string]int{"answer": 43}))
		AwaitEnd()
		return err
	})
	Run(envInstance, func(s instanceSettings) error {
		ctx, stop := UntilTold()
		defer stop()
		fmt.Println(s.Says)
		if !s.Ends {
			<-ctx.Done()
		}
		return nil
	})
	os.Exit(m.Run())
}

func start(t *testing.T, s childSettings) *Process {
	t.Helper()
	cmd, err := Self(context.WithoutCancel(t.Context()), envChild, s)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(cmd, filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProcess(t *testing.T) {
	p := start(t, childSettings{})
	var got map[string]int
	if err := p.Report(&got); err != nil || got["answer"] != 42 {
		t.Errorf("the report is %v, %v", got, err)
	}
	if err := p.Continue(); err != nil {
		t.Error(err)
	}
	if err := p.Report(&got); err != nil || got["answer"] != 43 {
		t.Errorf("the second report is %v, %v", got, err)
	}
	if cpu, err := CPUTime(p.PID()); err != nil || cpu > time.Minute {
		t.Errorf("it has taken %s of processor time, %v", cpu, err)
	}
	if rss, err := p.PeakRSS(); err != nil || runtime.GOOS == "linux" && rss < 1<<20 {
		t.Errorf("its peak is %d bytes, %v", rss, err)
	}
	if err := p.End(); err != nil || p.CPU() <= 0 {
		t.Errorf("its end: %v, after %s", err, p.CPU())
	}

	p = start(t, childSettings{})
	if err := p.Report(&got); err != nil {
		t.Error(err)
	}
	if err := p.Kill(); err != nil {
		t.Errorf("killed: %v", err)
	}

	p = start(t, childSettings{Fail: true})
	if err := p.Report(&got); err == nil {
		t.Error("a report of a process that has failed")
	}
	if err := p.End(); err == nil || !strings.Contains(err.Error(), "it went wrong") {
		t.Errorf("the failure is %v", err)
	}
}

func TestSpread(t *testing.T) {
	for _, tc := range []struct {
		values []float64
		want   Spread
	}{{nil, Spread{}}, {[]float64{3, 1, 2}, Spread{2, 1, 3}}, {[]float64{4, 1, 2, 3}, Spread{2.5, 1, 4}}} {
		if got := SpreadOf(tc.values); got != tc.want {
			t.Errorf("the spread of %v is %+v, want %+v", tc.values, got, tc.want)
		}
	}
}

// TestCPUTime: the figure moves on while this process computes.
func TestCPUTime(t *testing.T) {
	before, err := CPUTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "linux" {
		return // it is 0
	}
	// Until the clock of the process has moved on by ten ticks, however busy the machine is.
	for x := uint64(1); ; x = Scatter(x) {
		if x%1024 != 0 {
			continue
		}
		now, err := CPUTime(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if now-before >= 10*tick {
			break
		}
	}
	if _, err := CPUTime(1 << 30); err == nil {
		t.Error("a process that does not exist has a processor time")
	}
}
