//go:build onceward_failpoints

package failpoint

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Enabled says whether the points are compiled in.
const Enabled = true

// Variable arms a point.
const Variable = "ONCEWARD_FAILPOINT"

// arming is what the environment asks for at one point.
type arming struct {
	point       Point
	action      string
	wait        time.Duration
	skip, times int
}

func init() {
	points, asked := map[string][]Point{"list": Points, "list-letters": LetterPoints}[os.Getenv(Variable)]
	if !asked {
		return
	}
	for _, p := range points {
		fmt.Println(p)
	}
	os.Exit(0)
}

var armed = sync.OnceValue(func() plans {
	all, err := parseAll(os.Getenv(Variable))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2) // a test that arms nothing would look green
	}
	return all
})

type plans map[Point]*plan

type plan struct {
	arming
	mu   sync.Mutex
	hits int
}

func parseAll(text string) (plans, error) {
	all := plans{}
	if text == "" {
		return all, nil
	}
	for one := range strings.SplitSeq(text, ";") {
		a, err := parse(one)
		if err != nil {
			return nil, err
		}
		if all[a.point] != nil {
			return nil, fmt.Errorf("%s=%q: %s is armed twice", Variable, text, a.point)
		}
		all[a.point] = &plan{arming: a}
	}
	return all, nil
}

func parse(text string) (a arming, err error) {
	wrong := func(why string) (arming, error) {
		return arming{}, fmt.Errorf("%s=%q: %s", Variable, text, why)
	}
	parts := strings.Split(text, ",")
	point, action, ok := strings.Cut(parts[0], "=")
	if !ok || !Known(Point(point)) {
		return wrong("want point=action with a point that exists")
	}
	action, wait, _ := strings.Cut(action, ":")
	a = arming{point: Point(point), action: action, times: 1}
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

// Hit acts if the point is armed. It returns ErrInjected for the actions error and refuse, and otherwise nil.
func Hit(ctx context.Context, p Point) error {
	a := armed()[p]
	if a == nil || !a.take() {
		return nil
	}
	fmt.Fprintf(os.Stderr, "failpoint %s %s\n", p, a.action)
	switch a.action {
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
	case "error":
		return fmt.Errorf("%s: %w", p, ErrInjected)
	case "refuse":
		return fmt.Errorf("%s: %w", p, ErrRefused)
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
