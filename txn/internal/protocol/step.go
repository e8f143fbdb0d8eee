package protocol

import "fmt"

// Step takes one event. It is a pure function: equal arguments give equal results. Effects are to
// be carried out in their order; those of the two rounds run side by side, those of one round one
// after the other.
func Step(s State, e Event) (State, []Effect) {
	if s.Front == Broken {
		return s, nil // the worker is stopping; what is still in flight has no say any more
	}
	back := isBackEvent(s, e)
	from := s.Front
	if back {
		from, e.Round = s.Back, s.BackRound // the worker's own events carry no round; a reason must name one
	}
	if !back && (s.Front == None || e.Round != s.FrontRound) {
		return broken(s, e, "the event is about a round that is not in flight")
	}
	if back && from == Idle && (e.Kind == Due || e.Kind == Dropped || e.Kind == Full) {
		return s, nil // nothing to commit, drop or send
	}
	if back && (from == Aborting || from == Settling) && (e.Kind == Due || e.Kind == Dropped || e.Kind == Full) {
		return s, nil // the round is on its way out already
	}
	to, ok := arrowIndex[arrowKey{from, e.Kind, back}]
	if !ok {
		return broken(s, e, "there is no such arrow")
	}
	if back {
		return stepBack(s, e, to)
	}
	return stepFront(s, e, to)
}

// isBackEvent tells whose event it is. Only answers about the back round's own transaction carry
// its number.
func isBackEvent(s State, e Event) bool {
	switch e.Kind {
	case Joined, Full, Due, Dropped:
		return true
	case Aborted, AbortUnknown, Settled:
		return e.Round == s.BackRound
	default:
		return false
	}
}

func stepBack(s State, e Event, to Phase) (State, []Effect) {
	switch e.Kind {
	case Joined:
		if !s.CanCompute() {
			return broken(s, e, "a record joined while its base is uncertain")
		}
		s.Back = to
		return s, nil
	case Full:
		if !s.maySend() {
			s.WantStream = true
			return s, nil
		}
		s.Back = Streaming
		return s, []Effect{{Kind: Stream, Round: s.BackRound}}
	case Due:
		s.CommitDue = true
		return seal(s, nil)
	case Dropped:
		return dropBack(s, nil)
	case AbortUnknown:
		s.Back = Settling
		return s, []Effect{{Kind: Settle, Round: s.BackRound}}
	default: // Aborted, Settled: the back round is gone, its number is used up
		s.Back = Idle
		s.BackRound += 2 // the same producer's next turn; see seal for why numbers keep their parity
		return frontMayGo(s)
	}
}

// dropBack takes the back round away: its layers go at once, its transaction is aborted if it has
// one.
func dropBack(s State, effects []Effect) (State, []Effect) {
	s.CommitDue, s.WantStream = false, false
	switch s.Back {
	case Open:
		s.Back = Idle
		return s, append(effects, Effect{Kind: Rerun, Round: s.BackRound})
	case Streaming:
		s.Back = Aborting
		return s, append(effects, Effect{Kind: Rerun, Round: s.BackRound}, Effect{Kind: Abort, Round: s.BackRound})
	default:
		return s, effects
	}
}

// seal makes the back round the front round if it is due and there is no other. The next back round
// takes the other producer.
func seal(s State, effects []Effect) (State, []Effect) {
	if !s.CommitDue || s.Front != None || (s.Back != Open && s.Back != Streaming) {
		return s, effects
	}
	s.Front, s.FrontRound = Flushing, s.BackRound
	s.Back, s.BackRound = Idle, s.BackRound+1
	s.CommitDue, s.WantStream = false, false
	return s, append(effects, Effect{Kind: Flush, Round: s.FrontRound})
}

func stepFront(s State, e Event, to Phase) (State, []Effect) {
	s.Front = to
	switch e.Kind {
	case Flushed:
		effects := []Effect{{Kind: SendOffsets, Round: s.FrontRound}}
		if s.WantStream && s.Back == Open {
			s.Back, s.WantStream = Streaming, false
			effects = append(effects, Effect{Kind: Stream, Round: s.BackRound})
		}
		return s, effects
	case OffsetsAccepted:
		return s, []Effect{{Kind: End, Round: s.FrontRound}}
	case Committed, FoundOurs:
		return s, []Effect{{Kind: Apply, Round: s.FrontRound}}
	case FlushFailed, OffsetsRefused, ProducerLost, CommitUnknown:
		var effects []Effect
		if s.Back == Open || s.Back == Streaming {
			s, effects = dropBack(s, nil)
		}
		if !s.clear() {
			return s, effects // the front round's own effect follows once the back round is clear
		}
		return s, append(effects, frontEffect(s))
	case AbortUnknown:
		return s, []Effect{{Kind: Settle, Round: s.FrontRound}}
	case Aborted, FoundPrevious:
		return again(s)
	case Settled:
		if to == Asking {
			return s, []Effect{{Kind: Ask, Round: s.FrontRound}}
		}
		return again(s)
	case Applied:
		return seal(s, []Effect{{Kind: Retire, Round: s.FrontRound}})
	case FoundOther:
		return s, []Effect{{Kind: Reopen, Round: s.FrontRound}}
	case FoundMixed:
		return s, []Effect{{Kind: Fail, Round: s.FrontRound, Reason: "one transaction is committed for some tasks and not for others"}}
	default: // ApplyFailed
		return s, []Effect{{Kind: Fail, Round: s.FrontRound, Reason: "the store did not take a committed round"}}
	}
}

// again ends a front round that is known to be aborted: it runs again before anything newer.
func again(s State) (State, []Effect) {
	s.Front = None
	return s, []Effect{{Kind: Rerun, Round: s.FrontRound}}
}

// frontMayGo sends what a failed front round had to hold back while the back round's transaction
// was still open.
func frontMayGo(s State) (State, []Effect) {
	switch s.Front {
	case Aborting, Settling, Doubting:
		return s, []Effect{frontEffect(s)}
	default:
		return s, nil
	}
}

func frontEffect(s State) Effect {
	if s.Front == Aborting {
		return Effect{Kind: Abort, Round: s.FrontRound}
	}
	return Effect{Kind: Settle, Round: s.FrontRound}
}

func broken(s State, e Event, why string) (State, []Effect) {
	reason := fmt.Sprintf("broken invariant: event %s of round %d in state [%s]: %s", e.Kind, e.Round, s, why)
	s.Front = Broken
	return s, []Effect{{Kind: Fail, Round: e.Round, Reason: reason}}
}
