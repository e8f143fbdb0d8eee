package capture

import (
	"maps"

	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/topology"
)

// decisionsOf returns the decisions that requests have to lead to, but for those about ends.
func decisionsOf(all []request, live bool) decisionCounts {
	want := newDecisionCounts()
	first, more := isRequested, isAnswered
	if !live {
		first, more = isSuppressed, isSuppressed
	}
	for _, r := range all {
		switch r.becomes {
		case requested:
			want.add(isAccepted, r.message)
			want.add(first, r.capture)
		case copied:
			want.add(isDuplicate, r.message)
		case repeated:
			want.add(isAccepted, r.message)
			want.add(more, r.capture)
		case disputed:
			want.add(isAccepted, r.message)
		case forged, invalid, unreadable:
		}
	}
	return want
}

// captures are the capture request ids of which there has to be an end.
func captures(all []request) (ids []string) {
	for _, r := range all {
		if r.becomes == requested {
			ids = append(ids, r.capture)
		}
	}
	return ids
}

// lettersOf counts the dead letters that requests have to lead to.
func lettersOf(all []request) map[topology.Class]int {
	want := map[topology.Class]int{}
	for _, r := range all {
		if class := r.dies(); class != 0 {
			want[class]++
		}
	}
	return want
}

// goal is how much has to be seen of requests before they are done.
type goal struct {
	decisions map[string]int
	dead      map[topology.Class]int
	ends      int
}

func goalOf(all []request, live bool) goal {
	return goal{decisionsOf(all, live).totals, lettersOf(all), len(captures(all))}
}

// reached reports whether so much was seen.
func (g goal) reached(s *seen) bool {
	for decision, n := range g.decisions {
		if s.decisions.totals[decision] < n {
			return false
		}
	}
	for class, n := range g.dead {
		if s.dead[class] < n {
			return false
		}
	}
	return len(s.ends) >= g.ends
}

// judge compares everything that was told with what requests have to lead to, and with what the
// gateway has done.
func (s *seen) judge(all []request, g *Gateway) error {
	var differ differences
	want := decisionsOf(all, true)
	for _, id := range captures(all) {
		times, end := g.Captured(effect.IdempotencyKey(nodeCapture, id)), effect.FailedTerminal
		if times > 0 {
			end = effect.Completed
		}
		if times > 1 {
			differ.add("%s was captured %d times", id, times)
		}
		if ends := s.ends[id]; len(ends) != 1 || ends[0] != end {
			differ.add("%s was captured %d times, and the ends that were told are %v", id, times, ends)
		}
		want.add(isEnd+end.String(), id)
	}
	for _, q := range s.asked {
		want.add(isEnd+effect.Unknown.String(), q.result.ID)
		want.add(isResolved, q.result.ID)
	}
	s.compare(all, want, &differ)
	return differ.err()
}

// judgeReplay is judge for a replay, of which no gateway knows.
func (s *seen) judgeReplay(all []request) error {
	var differ differences
	want := decisionsOf(all, false)
	for _, id := range captures(all) {
		if ends := s.ends[id]; len(ends) != 1 || ends[0] != effect.Suppressed {
			differ.add("the ends of %s that were told are %v", id, ends)
		}
		want.add(isEnd+effect.Suppressed.String(), id)
	}
	s.compare(all, want, &differ)
	return differ.err()
}

func (s *seen) compare(all []request, want decisionCounts, differ *differences) {
	if err := want.difference(s.decisions); err != nil {
		differ.add("decisions: %w", err)
	}
	if n := len(captures(all)); len(s.ends) != n {
		differ.add("%d captures have an end, want %d", len(s.ends), n)
	}
	if want := lettersOf(all); !maps.Equal(s.dead, want) {
		differ.add("there are dead letters %v, want %v", s.dead, want)
	}
}

// outcomesOf returns what the metrics of a process have to say that has processed the requests, and
// nothing else, while the gateway has answered so, and people as often as they were asked.
func outcomesOf(all []request, answered Books, people int) map[string]int {
	d := decisionsOf(all, true).totals
	outcomes := map[string]int{
		"accepted": d[isAccepted], "duplicates": d[isDuplicate],
		"requested": d[isRequested], "answered": d[isAnswered],
		"completed":        answered.Captured + answered.Found,
		"failed-retryable": answered.Busy + answered.Missing,
		"failed-terminal":  answered.Declined,
		"unknown":          answered.Lost + answered.Pending + answered.Failed,
		"claims":           answered.calls() + answered.lookups(),
		"resolved":         people,
	}
	addLetters(outcomes, all)
	return outcomes
}

// outcomesOfReplay is outcomesOf for a process that makes no calls.
func outcomesOfReplay(all []request) map[string]int {
	d := decisionsOf(all, false).totals
	outcomes := map[string]int{
		"accepted": d[isAccepted], "duplicates": d[isDuplicate], "suppressed": d[isSuppressed],
	}
	addLetters(outcomes, all)
	return outcomes
}

func addLetters(outcomes map[string]int, all []request) {
	for class, n := range lettersOf(all) {
		outcomes["dead-letter-"+class.String()] = n
	}
	maps.DeleteFunc(outcomes, func(_ string, n int) bool { return n == 0 }) // what has not happened is no line of the metrics
}

func (b Books) calls() int   { return b.Captured + b.Lost + b.Busy + b.Declined }
func (b Books) lookups() int { return b.Found + b.Missing + b.Pending + b.Failed }

// since returns what was answered after an earlier look.
func (b Books) since(before Books) Books {
	return Books{
		Captured: b.Captured - before.Captured, Lost: b.Lost - before.Lost, Busy: b.Busy - before.Busy, Declined: b.Declined - before.Declined,
		Found: b.Found - before.Found, Missing: b.Missing - before.Missing, Pending: b.Pending - before.Pending, Failed: b.Failed - before.Failed,
	}
}
