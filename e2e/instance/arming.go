//go:build onceward_failpoints

package instance

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/txn"
)

// arming is what the environment asks for at one point.
type arming struct {
	point       string
	action      string
	wait        time.Duration
	skip, times int
}

type plans map[string]*plan

type plan struct {
	arming
	mu   sync.Mutex
	hits int
}

// parseAll refuses points that are not known: a test that arms nothing would look green.
func parseAll(text string, known []string) (plans, error) {
	all := plans{}
	if text == "" || text == ArmNothing {
		return all, nil
	}
	for one := range strings.SplitSeq(text, ";") {
		a, err := parse(one, known)
		if err != nil {
			return nil, err
		}
		if all[a.point] != nil {
			return nil, fmt.Errorf("%s=%q: %s is armed twice", ArmingVariable, text, a.point)
		}
		all[a.point] = &plan{arming: a}
	}
	return all, nil
}

func parse(text string, known []string) (a arming, err error) {
	wrong := func(why string) (arming, error) {
		return arming{}, fmt.Errorf("%s=%q: %s", ArmingVariable, text, why)
	}
	parts := strings.Split(text, ",")
	point, action, ok := strings.Cut(parts[0], "=")
	if !ok || !slices.Contains(known, point) {
		return wrong("want point=action with a point that exists")
	}
	action, wait, _ := strings.Cut(action, ":")
	a = arming{point: point, action: action, times: 1}
	switch action {
	case "kill", "freeze", "error", "refuse":
	case "delay", "stall":
		if a.wait, err = time.ParseDuration(wait); err != nil {
			return wrong(err.Error())
		}
	default:
		return wrong("the action is kill, freeze, error, refuse, delay:DURATION or stall:DURATION")
	}
	for _, option := range parts[1:] {
		name, value, _ := strings.Cut(option, "=")
		n, err := strconv.Atoi(value)
		switch {
		case err != nil:
			return wrong(err.Error())
		case name == "skip":
			a.skip = n
		case name == "times":
			a.times = n
		default:
			return wrong("the options are skip and times")
		}
	}
	return a, nil
}

// hit acts if the point is armed. stop is called with each hit that acts, before it acts; it kills
// or freezes whatever fails.
func (all plans) hit(ctx context.Context, p string, stop func(point, action string) error) error {
	a := all[p]
	if a == nil || !a.take() {
		return nil
	}
	if err := stop(p, a.action); err != nil {
		return err
	}
	switch a.action {
	case "error":
		return fmt.Errorf("%s: %w", p, txn.ErrInjected)
	case "refuse":
		return fmt.Errorf("%s: %w", p, txn.ErrRefused)
	case "delay":
		select {
		case <-ctx.Done():
		case <-time.After(a.wait):
		}
	case "stall":
		time.Sleep(a.wait)
	}
	return nil
}

// hitProcess is hit in a program that fails as the environment says.
func (all plans) hitProcess(ctx context.Context, p string) error { return all.hit(ctx, p, stopProcess) }

func stopProcess(point, action string) error {
	fmt.Fprintf(os.Stderr, "failpoint %s %s\n", point, action)
	switch action {
	case "kill":
		if err := signal(os.Kill); err != nil {
			return err
		}
		select {} // the signal may take a moment, and nothing must follow it
	case "freeze":
		if err := signal(stopSignal); err != nil {
			return err
		}
		time.Sleep(freezeGrace) // over by the time the process goes on
	}
	return nil
}

// freezeGrace is how long the process may take to stop: nothing must follow the point meanwhile.
const freezeGrace = 200 * time.Millisecond

func signal(s os.Signal) error {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	return self.Signal(s)
}

func (p *plan) take() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hits++
	return p.hits > p.skip && p.hits <= p.skip+p.times
}
