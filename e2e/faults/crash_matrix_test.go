//go:build unix

package faults

import (
	"fmt"
	"slices"
	"strings"
)

// action is a column of the matrix.
type action string

// The columns. What they do at a point stands in the documentation of package instance.
const (
	kill   action = "kill"
	fail   action = "error"
	refuse action = "refuse"
	delay  action = "delay"
	// hang stops only the goroutine, past the transaction timeout: the membership goes on.
	hang action = "hang"
	// stall freezes the whole process past its session: another instance takes the tasks, and then
	// the process goes on.
	stall action = "stall"
	// nap freezes the process until another instance has its tasks, and no longer: what was about
	// to be committed still can be, by a process that is no member any more. It is no column.
	nap action = "nap"
)

var actions = []action{kill, fail, refuse, delay, hang, stall}

// delayed is long for a round and short for everything that has a deadline in seconds.
const delayed = "delay:700ms"

// hung is longer than the transaction timeout and than the session, which goes on, and shorter than
// the wait for brokers at a start.
const hung = "stall:50s"

// arm returns what the application is armed with for the action, without options.
func (a action) arm() string {
	switch a {
	case delay:
		return delayed
	case stall, nap:
		return "freeze"
	case hang:
		return hung
	default:
		return string(a)
	}
}

// row is how a point is reached.
type row struct {
	point string
	// lost takes the state directory away before the armed life.
	lost bool
	// says is what the inputs of the armed life say, if not the plain thing.
	says func(number int) string
	// joins lets a second instance join once the armed one works.
	joins bool
	// stops ends the armed life in order once it works.
	stops bool
	// first is another point with its action that leads here, in the same round. After a freeze the
	// process is thawed when another instance has taken its tasks.
	first string
	// skip is how many hits pass before it counts: the middle of the work. It counts for first, if
	// there is one.
	skip int
	// fatal says that the actions error and refuse end the process with an error: it cannot know
	// what to do.
	fatal bool
	// outlasts says that the actions hang and stall end the process with an error: the time is over
	// that a stop has.
	outlasts bool
	// nofail says why the actions error and refuse have no meaning here.
	nofail string
}

const (
	callback = "the callback of the group cannot fail"
	handed   = "the task is the worker's by now: there is nothing that could fail"
	user     = "an error here would be one of user code, which is no crash"
	inMemory = "it works on memory: there is nothing that could fail"
	closing  = "the task is closed whatever happens"
	leaving  = "leaving goes on: the session would end by itself"
)

// rows are all points. The middle of a round is five rounds in.
var rows = []row{
	{point: "init-before"},
	{point: "init-after"},
	{point: "join-before"},
	{point: "assigned", nofail: callback},
	{point: "stable-before", skip: 1},
	{point: "stable-after", skip: 1},
	{point: "open-before", skip: 1},
	{point: "restore-batch", lost: true, skip: 1},
	{point: "restore-after", lost: true, skip: 1},
	{point: "adopt-after", skip: 1, nofail: handed},
	{point: "process-before", skip: 100, nofail: user},
	{point: "process-after", skip: 100, nofail: user},
	{point: "begin-before", skip: 5},
	{point: "begin-after", skip: 5},
	{point: "stream-after", says: bulky, skip: 2},
	{point: "flush-before", skip: 5},
	{point: "flush-after", skip: 5},
	{point: "offsets-before", skip: 5},
	{point: "offsets-after", skip: 5},
	{point: "end-before", skip: 5},
	{point: "end-after", skip: 5},
	{point: "apply-before", skip: 5, fatal: true},
	{point: "apply-after", skip: 5, fatal: true},
	{point: "retire-before", skip: 5, nofail: inMemory},
	{point: "abort-before", first: "offsets-before=refuse", skip: 5},
	{point: "abort-after", first: "offsets-before=refuse", skip: 5},
	{point: "settle-before", first: "offsets-after=error", skip: 5},
	{point: "settle-after", first: "offsets-after=error", skip: 5},
	{point: "ask-before", first: "end-after=error", skip: 5},
	{point: "ask-after", first: "end-before=error", skip: 5},
	{point: "rerun-before", first: "flush-after=refuse", skip: 5, nofail: inMemory},
	{point: "revoked-before", joins: true, nofail: callback},
	{point: "revoked-after", joins: true, nofail: callback},
	{point: "lost-before", first: "offsets-after=freeze", skip: 5, nofail: callback},
	{point: "release-before", joins: true, nofail: closing},
	{point: "purge-before"},
	{point: "positions-write", stops: true, fatal: true, outlasts: true},
	{point: "leave-before", stops: true, nofail: leaving},
	{point: "leave-after", stops: true, nofail: leaving},
}

// crashCell is a combination of a row and an action that is run.
type crashCell struct {
	row
	action action
	// variant names a cell beside those of the matrix.
	variant string
	// fresh is the first life ever of the application, and the first hit of the point.
	fresh bool
	// takeover lets another instance finish what was killed.
	takeover bool
	// workers are those of the armed life and of the one after it; 1 if they are 0.
	workers [2]int
}

func (c crashCell) name() string {
	name := c.point + "/" + string(c.action)
	if c.variant != "" {
		name += "/" + c.variant
	}
	return name
}

// arm returns the value that arms the application, and the lines that tell of the hits that the
// scene reacts to.
func (c crashCell) arm() (armed string, lines []string) {
	skip := ""
	if c.skip > 0 && !c.fresh {
		skip = fmt.Sprintf(",skip=%d", c.skip)
	}
	what, _, _ := strings.Cut(c.action.arm(), ":")
	lines = []string{"failpoint " + c.point + " " + what}
	armed = c.point + "=" + c.action.arm()
	if c.first == "" {
		return armed + skip, lines
	}
	if point, ok := strings.CutSuffix(c.first, "=freeze"); ok {
		lines = append([]string{"failpoint " + point + " freeze"}, lines...)
	}
	return c.first + skip + ";" + armed, lines
}

// reason returns why an action has no meaning at a point, and nothing if it has one.
func (r row) reason(a action) string {
	if a == fail || a == refuse {
		return r.nofail
	}
	return ""
}

// ends reports whether the action ends the process with an error.
func (r row) ends(a action) bool {
	switch a {
	case fail, refuse:
		return r.fatal
	case hang, stall:
		return r.outlasts
	}
	return false
}

// commits reports whether the point is between the last record of a round and its arrival in the
// store.
func (r row) commits() bool {
	switch r.point {
	case "flush-after", "offsets-before", "offsets-after", "end-before", "end-after", "apply-before":
		return true
	}
	return false
}

// matrix returns the cells of the actions.
func matrix(as ...action) (cells []crashCell) {
	for _, r := range rows {
		for _, a := range as {
			if r.reason(a) == "" {
				cells = append(cells, crashCell{row: r, action: a})
			}
		}
	}
	return cells
}

// variants returns cells beside those of the matrix.
func variants() (cells []crashCell) {
	for _, r := range rows {
		cells = append(cells, crashCell{row: r, action: kill, variant: "takeover", takeover: true})
		if !r.lost { // it needs something to restore
			cells = append(cells, crashCell{row: r, action: kill, variant: "fresh", fresh: true})
		}
		switch {
		case r.commits():
			cells = append(cells, crashCell{row: r, action: nap})
			cells = append(cells, crashCell{row: r, action: kill, variant: "fewer-workers", workers: [2]int{3, 1}})
			cells = append(cells, crashCell{row: r, action: kill, variant: "more-workers", workers: [2]int{1, 3}})
			// Rounds without changelog records: the state keeps the name of an earlier round.
			for variant, says := range map[string]func(int) string{"only-dead-letters": poisonous, "only-positions": quiet} {
				r := r
				r.skip, r.says = 0, says
				cells = append(cells, crashCell{row: r, action: kill, variant: variant})
			}
		case strings.HasPrefix(r.point, "ask-"):
			cells = append(cells, doubts(r)...)
		}
	}
	return cells
}

// doubts are rounds in doubt, in the middle and as the first commit ever, that were committed and
// that were not.
func doubts(r row) (cells []crashCell) {
	for _, truth := range []string{"end-before", "end-after"} {
		r.first = truth + "=error"
		for _, a := range []action{kill, delay} {
			cells = append(cells,
				crashCell{row: r, action: a, variant: truth},
				crashCell{row: r, action: a, variant: truth + "-of-the-first-commit", fresh: true})
		}
	}
	return cells
}

// coverage compares the rows with the points that the application names.
func coverage(points []string) error {
	var named []string
	for _, r := range rows {
		named = append(named, r.point)
	}
	for _, p := range union(setOf(points), setOf(named)) {
		if !slices.Contains(named, p) {
			return fmt.Errorf("point %s has no row", p)
		}
		if !slices.Contains(points, p) {
			return fmt.Errorf("row %s has no point", p)
		}
	}
	run, listed := len(matrix(actions...)), 0
	for _, r := range rows {
		for _, a := range actions {
			if r.reason(a) != "" {
				listed++
			}
		}
	}
	if run+listed != len(points)*len(actions) {
		return fmt.Errorf("%d cells run and %d listed, but there are %d points and %d actions",
			run, listed, len(points), len(actions))
	}
	return nil
}

func setOf(names []string) map[string]bool {
	set := map[string]bool{}
	for _, n := range names {
		set[n] = true
	}
	return set
}
