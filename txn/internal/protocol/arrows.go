package protocol

// Arrow is one transition of one of the two rounds. The other round may hold its effects back or be
// pulled along; that is in [Step].
type Arrow struct {
	From  Phase
	Event EventKind
	To    Phase
	// Back is set for arrows of the back round.
	Back bool
}

// Arrows lists every transition. An event without an arrow is a broken invariant.
var Arrows = []Arrow{
	{From: Idle, Event: Joined, To: Open, Back: true},
	{From: Open, Event: Joined, To: Open, Back: true},
	{From: Streaming, Event: Joined, To: Streaming, Back: true},
	{From: Open, Event: Full, To: Streaming, Back: true},
	{From: Streaming, Event: Full, To: Streaming, Back: true},
	{From: Open, Event: Due, To: Flushing, Back: true},
	{From: Streaming, Event: Due, To: Flushing, Back: true},
	{From: Open, Event: Dropped, To: Idle, Back: true},
	{From: Streaming, Event: Dropped, To: Aborting, Back: true},
	{From: Aborting, Event: Aborted, To: Idle, Back: true},
	{From: Aborting, Event: AbortUnknown, To: Settling, Back: true},
	{From: Settling, Event: Settled, To: Idle, Back: true},

	{From: Flushing, Event: Flushed, To: Offsets},
	{From: Flushing, Event: FlushFailed, To: Aborting},
	{From: Flushing, Event: ProducerLost, To: Settling},
	{From: Offsets, Event: OffsetsAccepted, To: Ending},
	{From: Offsets, Event: OffsetsRefused, To: Aborting},
	{From: Offsets, Event: ProducerLost, To: Settling},
	{From: Ending, Event: Committed, To: Applying},
	{From: Ending, Event: CommitUnknown, To: Doubting},
	{From: Aborting, Event: Aborted, To: None},
	{From: Aborting, Event: AbortUnknown, To: Settling},
	{From: Settling, Event: Settled, To: None},
	{From: Doubting, Event: Settled, To: Asking},
	{From: Asking, Event: FoundOurs, To: Applying},
	{From: Asking, Event: FoundPrevious, To: None},
	{From: Asking, Event: FoundOther, To: Broken},
	{From: Asking, Event: FoundMixed, To: Broken},
	{From: Applying, Event: Applied, To: None},
	{From: Applying, Event: ApplyFailed, To: Broken},
}

type arrowKey struct {
	from  Phase
	event EventKind
	back  bool
}

var arrowIndex = func() map[arrowKey]Phase {
	m := make(map[arrowKey]Phase, len(Arrows))
	for _, a := range Arrows {
		m[arrowKey{a.From, a.Event, a.Back}] = a.To
	}
	return m
}()
