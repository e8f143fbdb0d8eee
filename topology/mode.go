package topology

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/onceward/onceward/schemas"
)

// A Mode says why records are processed: because they have just happened, or once more. It is the
// runtime's ([GraphConfig.Mode]) and travels with records ([HeaderMode]), so that nobody behind
// takes a repetition for the event. The zero Mode is Live.
//
// What each mode means for what a record leaves:
//
//	mode       state                     outputs             effects         dead letters               evidence
//	Live       the application's         without a header    happen          without a header           LIVE
//	Replay     of an application id      header REPLAY       suppressed      header REPLAY; a redrive   REPLAY
//	           of its own, made anew                                         leaves them (a)
//	Backfill   the application's (b)     header BACKFILL     suppressed (c)  header BACKFILL            BACKFILL
//	Repair     the application's (b)     header REPAIR       suppressed (c)  header REPAIR              REPAIR
//	Forensic   temporary, removed        none, they are      suppressed      none, they are counted     none
//	           at the end                shown (d)
//
// (a) unless it is for the application that made them, or takes them as repairs: the live
// application has its own dead letters of the same records. (b) An application commits in one mode, and
// goes on in another one only if it is told which one it had (txn.Config.ModesBefore). A single
// record that says of itself that it is a repair or a backfill is processed by a live application,
// in its state, and everything that it makes is in that mode. (c) as in every mode but Live, unless
// package processors/effect is told to make calls in that mode too; a suppressed request is
// remembered as such, also for its live duplicates. (d) to whoever asked for the run, with the
// header FORENSIC; no record can come with that one.
type Mode uint8

// The modes. Only Live lets effects outside of the topology happen (package processors/effect).
const (
	// Live: records are processed because they have come.
	Live Mode = iota
	// Replay: records are read again, to build state anew beside the one that is in use. The
	// application is another one than the live one.
	Replay
	// Backfill: records of the past come for the first time.
	Backfill
	// Repair: single records come again, because they were missing or wrong.
	Repair
	// Forensic: records are looked at, and nothing is kept: no output, no offset, no state. Nothing
	// that was written can carry it.
	Forensic
)

// HeaderMode is the header that tells the mode of a record, in the spelling of [Mode.String]. A
// record without it is live.
//
// It is believed, whoever has written it: it is how a mode travels from one application to the
// next. So who may write to an input can keep its own records from having effects outside of the
// topology, and no others; it cannot make a record live for an application that runs in another
// mode.
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

// Mode returns the mode of the record, or the punctuation, at work: that of the application unless
// it is Live, and then that of the record's header. All that is written on the way carries it.
//
// What the record only makes due is not in its mode. Punctuations are in that of the application, a
// window that closes ([WindowedTable.Closed]) is in that of its own records, and a record that a
// node has kept back, and resumes ([TakeUp]), is in its own.
func (c *Context) Mode() Mode { return c.graph.mode }

const errMode = schemas.Reason("the header " + HeaderMode + " has no mode that a record can have")

// ModeOf returns the mode that headers tell: that of the last [HeaderMode], and Live where there is
// none. What is no mode that a record can have is an error, of class Validation: it must not pass
// for Live, which lets effects happen.
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

// withMode returns headers with a mode in place of another one that is in them. What is live has no
// such header, and costs nothing.
func withMode(headers []Header, m Mode) []Header {
	if m == Live {
		return headers
	}
	return withHeader(withoutHeader(headers, HeaderMode), HeaderMode, []byte(m.String()))
}
