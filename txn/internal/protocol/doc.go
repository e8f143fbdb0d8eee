// Package protocol is the commit protocol of one worker as a pure state machine: [Step] takes a
// state and an event and returns the next state and the effects that the worker must carry out. It
// does no I/O, has no clock and starts no goroutine; time is an event (a deadline that passed
// arrives as an outcome that says "unknown").
//
// # The two rounds
//
// A worker has at most two rounds, and each of them uses a transactional producer of its own (they
// take turns):
//
//   - the front round is in flight: sealed, and on its way to the broker and into the store;
//   - the back round is open: records join it while the front round flushes, commits and is
//     applied.
//
// The back round is sealed only when there is no front round any more. With that, the gates between
// two rounds reduce to one question, "may the back round already produce?", and it may once the
// front round's flush returned clean:
//
//	front   None ──► Flushing ──► Offsets ──► Ending ──► Applying ──► None
//	                  │  │         │  │         │ no definite answer
//	                  │  └─ lost ──│──┤         ▼
//	                  └── failed ──┤  │      Doubting ──► Asking ──► Applying | None (run again) | Broken
//	                               ▼  ▼
//	                         Aborting ──► Settling         both ──► None (run again)
//
//	back    Idle ──► Open ──► Streaming ──► (sealed, from Open too: becomes the front round)
//	          ▲       │ dropped   │ dropped
//	          ├───────┘           ▼
//	          └────────────── Aborting ──► Settling ──► Idle
//
// Where the store does not take a committed round, or an invariant does not hold, the front round
// is Broken.
//
// # Rules that the machine keeps
//
//   - The first produce of the back round comes after the front round's flush returned clean.
//   - Offsets and end of a round are sent only when the round before it is answered and applied.
//   - A front round that aborts or is in doubt waits until the back round's transaction is aborted:
//     what was computed on top goes first.
//   - A round whose commit was sent and not answered with success is in doubt, whatever the answer
//     was: its producer is settled (thrown away and initialised anew), and only then the log is
//     asked.
//   - A round whose commit was never sent cannot be in doubt: once settled it is aborted, and runs
//     again.
//   - Nothing is applied before it is known to be committed.
//
// # What the worker has to do
//
//   - Rerun is carried out at once, before the next event is given: its order (back round first,
//     then front) is what puts the journals in order.
//   - After a Rerun, an earlier Due or Full is forgotten; the worker reports it again for the new
//     round if it still holds.
//   - The byte bound is the worker's: a round that is full must not be joined, although CanCompute
//     is true.
//   - Once Broken, nothing is ever asked for again. The worker stops, and another one begins with
//     [New] and a number of its own.
//   - Dropped is about the back round only. A task that is given up while its front round is in
//     flight is fenced by the comparison of ownership that SendOffsets makes; after it, the round
//     commits, and its pending offsets keep the next owner waiting until then.
//
// # Events that find no arrow
//
// Arrows are data: [Arrows] lists them, and the tests take every one. Full, Due and Dropped are
// ignored while the back round is Idle or on its way out, and Due and Full are remembered while
// they have to wait. Any other event without an arrow, and a Joined while CanCompute is false, is a
// broken invariant and leads to Broken, never to a guess. FoundOther leads there too: the tasks are
// somebody else's.
package protocol
