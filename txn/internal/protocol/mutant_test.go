package protocol

import "slices"

// The broken machines of the controls. Each wraps Step and does one thing wrong.

// pure makes a machine without a memory of its own.
func pure(step stepFunc) func() stepFunc { return func() stepFunc { return step } }

// answersFront reports whether e is one of these answers about the front round.
func answersFront(s State, e Event, kinds ...EventKind) bool {
	return s.Front != None && e.Round == s.FrontRound && slices.Contains(kinds, e.Kind)
}

// fails reports whether e ends the front round's good way.
func fails(s State, e Event) bool {
	return answersFront(s, e, FlushFailed, OffsetsRefused, ProducerLost, CommitUnknown)
}

// endsBack reports whether e ends the back round's transaction.
func endsBack(s State, e Event) bool {
	return e.Round == s.BackRound && (e.Kind == Aborted || e.Kind == Settled)
}

// takenAs takes one answer for another, as if it had come in another phase.
func takenAs(in Phase, kind EventKind, as Phase, asKind EventKind) func() stepFunc {
	return pure(func(s State, e Event) (State, []Effect) {
		if s.Front == in && answersFront(s, e, kind) {
			s.Front, e.Kind = as, asKind
		}
		return Step(s, e)
	})
}

// swap replaces one effect about the front round, and the phase with it.
func swap(from Phase, effect EffectKind, to Phase, by EffectKind) func() stepFunc {
	return pure(func(s State, e Event) (State, []Effect) {
		after, effects := Step(s, e)
		for i, f := range effects {
			if after.Front == from && f.Kind == effect && f.Round == after.FrontRound {
				after.Front, effects[i].Kind = to, by
			}
		}
		return after, effects
	})
}

// without leaves out the effects that drop names.
func without(drop func(before State, e Event, f Effect) bool) func() stepFunc {
	return pure(func(s State, e Event) (State, []Effect) {
		to, effects := Step(s, e)
		return to, slices.DeleteFunc(effects, func(f Effect) bool { return drop(s, e, f) })
	})
}

// forgetting loses a part of the state.
func forgetting(forget func(*State)) func() stepFunc {
	return pure(func(s State, e Event) (State, []Effect) {
		to, effects := Step(s, e)
		forget(&to)
		return to, effects
	})
}

func ignoring(kind EventKind) func() stepFunc {
	return pure(func(s State, e Event) (State, []Effect) {
		if e.Kind == kind {
			return s, nil
		}
		return Step(s, e)
	})
}

// renumber goes on with another number when a back round was aborted.
func renumber(by uint64) func() stepFunc {
	return pure(func(s State, e Event) (State, []Effect) {
		to, effects := Step(s, e)
		if endsBack(s, e) {
			to.BackRound = s.BackRound + by
		}
		return to, effects
	})
}

// believer applies a round whose commit was not answered.
func believer(s State, e Event) (State, []Effect) {
	if s.Front == Ending && answersFront(s, e, CommitUnknown) {
		s.Front = Applying
		return s, []Effect{{Kind: Apply, Round: s.FrontRound}}
	}
	return Step(s, e)
}

// impatient sends a failed front round's effect at once, beside the abort of the back round.
func impatient(s State, e Event) (State, []Effect) {
	to, effects := Step(s, e)
	switch {
	case fails(s, e) && !to.clear():
		effects = append(effects, frontEffect(to))
	case endsBack(s, e):
		effects = nil // it was sent already
	}
	return to, effects
}

// keeper fails the front round and leaves the back round as it is, to go on when the front round is
// over.
func keeper(s State, e Event) (State, []Effect) {
	to, effects := Step(s, e)
	if !fails(s, e) || s.Back != Open && s.Back != Streaming || to.Front == Broken {
		return to, effects
	}
	to.Back, to.CommitDue, to.WantStream = s.Back, s.CommitDue, s.WantStream
	return to, []Effect{frontEffect(to)}
}

// streamer lets the back round produce while the front round flushes.
func streamer(s State, e Event) (State, []Effect) {
	if e.Kind == Full && s.Front == Flushing && s.Back == Open {
		s.Back = Streaming
		return s, []Effect{{Kind: Stream, Round: s.BackRound}}
	}
	return Step(s, e)
}

// doubleSender sends the commit beside the offsets, and again after them.
func doubleSender(s State, e Event) (State, []Effect) {
	to, effects := Step(s, e)
	if s.Front == Flushing && answersFront(s, e, Flushed) {
		effects = append(effects, Effect{Kind: End, Round: s.FrontRound})
	}
	return to, effects
}

// retirer takes a committed round for an applied one.
func retirer(s State, e Event) (State, []Effect) {
	if s.Front == Ending && answersFront(s, e, Committed) {
		s.Front = None
		return seal(s, []Effect{{Kind: Retire, Round: s.FrontRound}})
	}
	return Step(s, e)
}

// careless computes on while the back round is on its way out.
func careless(s State, e Event) (State, []Effect) {
	to, effects := Step(s, e)
	if e.Kind == Dropped && to.Back == Aborting {
		to.Back = Idle
	}
	return to, effects
}

// misordered holds the back round's Rerun until the front round's.
func misordered() stepFunc {
	var held []Effect
	return func(s State, e Event) (State, []Effect) {
		to, effects := Step(s, e)
		if fails(s, e) {
			isBack := func(f Effect) bool { return f.Kind == Rerun && f.Round == s.BackRound }
			if i := slices.IndexFunc(effects, isBack); i >= 0 {
				held = append(held, effects[i])
				effects = slices.Delete(effects, i, i+1)
			}
		}
		if len(held) > 0 && (to.Front == None || to.Front == Applying) {
			effects, held = append(effects, held...), nil
		}
		return to, effects
	}
}

// hasty seals the next round as soon as the commit is known.
func hasty() stepFunc {
	applying := map[uint64]bool{}
	return func(s State, e Event) (State, []Effect) {
		switch {
		case s.Front == Ending && answersFront(s, e, Committed):
			applying[e.Round], s.Front = true, None
			return seal(s, []Effect{{Kind: Apply, Round: e.Round}})
		case e.Kind == Applied && applying[e.Round]:
			return s, []Effect{{Kind: Retire, Round: e.Round}}
		default:
			return Step(s, e)
		}
	}
}
