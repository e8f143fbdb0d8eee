package topology

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/onceward/onceward/schemas"
)

// A Mode says why records are processed: because they have just happened, or once more. The runtime
// sets it ([GraphConfig.Mode]) and it travels with records ([HeaderMode]), so that no consumer
// takes a repetition for the event. The zero Mode is Live.
//
// The effect of each mode:
//
//	mode       state                     outputs             effects         dead letters               evidence
//	Live       the application's         without a header    happen          without a header           LIVE
//	Replay     of an application id      header REPLAY       suppressed      header REPLAY; a redrive   REPLAY
//	           of its own, rebuilt                                           leaves them (a)
//	Backfill   the application's (b)     header BACKFILL     suppressed (c)  header BACKFILL            BACKFILL
//	Repair     the application's (b)     header REPAIR       suppressed (c)  header REPAIR              REPAIR
//	Forensic   temporary, removed        none, they are      suppressed      none, they are counted     none
//	           at the end                shown (d)
//
// Notes:
//   - (a) The live application has its own dead letters of the same records. A redrive writes those
//     of a replay only for the application that made them, or for one that takes them as repairs.
//   - (b) An application commits in one mode. It continues in another mode only if
//     txn.Config.ModesBefore names the mode that it had. A live application processes a single
//     record with the header REPAIR or BACKFILL in its own state; all outputs of that record have
//     its mode.
//   - (c) Suppressed as in every mode but Live, unless package processors/effect is told to make
//     calls in that mode. A suppressed request stays suppressed for its live duplicates.
//   - (d) Shown to the caller of the run, with the header FORENSIC. No input can have that header.
type Mode uint8

// The modes. Only Live lets effects outside of the topology happen (package processors/effect).
const (
	// Live: records are processed because they have happened.
	Live Mode = iota
	// Replay: records are read again, to build a new state beside the one in use. The application
	// is not the live one.
	Replay
	// Backfill: records of the past come for the first time.
	Backfill
	// Repair: single records are processed again, because they were missing or wrong.
	Repair
	// Forensic: records are looked at, and nothing is kept: no output, no offset, no state. Nothing
	// that was written can carry it.
	Forensic
)

// HeaderMode is the header that tells the mode of a record, in the spelling of [Mode.String]. A
// record without it is live.
//
// The header is not authenticated: it is how a mode passes from one application to the next. A
// producer of an input can so keep its own records from having effects outside of the topology, and
// no other records. It cannot make a record live for an application that runs in another mode.
const HeaderMode = "onceward.mode"

var modeNames = [...]string{
	Live: "LIVE", Replay: "REPLAY", Backfill: "BACKFILL", Repair: "REPAIR", Forensic: "FORENSIC",
}

// String returns the mode in capitals, as it stands in headers and evidence.
func (m Mode) String() string {
	if int(m) >= len(modeNames) {
		return "mode(" + strconv.Itoa(int(m)) + ")"
	}
	return modeNames[m]
}

// ParseMode returns the mode that String spells as s, in capitals or not.
func ParseMode(s string) (Mode, error) {
	for m, name := range modeNames {
		if strings.EqualFold(name, s) {
			return Mode(m), nil
		}
	}
	return Live, fmt.Errorf("topology: %q is no mode; the modes are %s", s, strings.Join(modeNames[:], ", "))
}

// Mode returns the mode of the record or punctuation at work. It is the mode of the application
// unless that is Live, and then the mode in the header of the record. All outputs carry it.
//
// A record does not pass its mode to work that it only makes due:
//   - Punctuations are in the mode of the application.
//   - A window that closes ([WindowedTable.Closed]) is in the mode of its own records.
//   - A deferred record that a node resumes ([Resume]) is in its own mode.
func (c *Context) Mode() Mode { return c.graph.mode }

const errMode = schemas.Reason("the header " + HeaderMode + " has no mode that a record can have")

// ModeOf returns the mode of the last [HeaderMode], Live without one. An unknown mode, or one that
// a record cannot have, is an error of class Validation: it must not pass for Live, which lets
// effects happen.
func ModeOf(headers []Header) (Mode, error) {
	i := lastHeader(headers, HeaderMode)
	if i < 0 {
		return Live, nil
	}
	m, err := ParseMode(string(headers[i].Value))
	if err != nil || m == Forensic {
		return Live, Fail(Validation, errMode)
	}
	return m, nil
}

// setMode takes the mode of the unit at work from the headers of its record. One that is not known
// fails in every mode of the application, so that a replay decides as the live one did.
func (g *Graph) setMode(headers []Header) error {
	own, err := ModeOf(headers)
	if err == nil {
		g.enter(own)
	}
	return err
}

// enter makes own the mode of what is at work, as far as that of the application allows.
func (g *Graph) enter(own Mode) {
	g.ownMode, g.mode = own, g.config.Mode
	if g.mode == Live {
		g.mode = own
	}
}

// inMode runs f for something that is not of the record at work, and whose own mode is own.
func (g *Graph) inMode(own Mode, f func() error) error {
	defer g.enter(g.ownMode) // also after a panic: a dead letter of the record is in the mode of the record
	g.enter(own)
	return f()
}

// withMode returns headers with their mode replaced by m. Live records have no such header, and
// cost nothing.
func withMode(headers []Header, m Mode) []Header {
	if m == Live {
		return headers
	}
	return withHeader(withoutHeader(headers, HeaderMode), HeaderMode, []byte(m.String()))
}
