package task

import "time"

// A digest stands for the records of an input that a store without a changelog has taken. It has
// the place of the store's stream time in positions and commits. From its top:
//
//	bit 62       is set: no stream time is as large
//	21 bits      number of the state: another one for each state that starts empty
//	1 bit        says that a key was taken in another form than its codec writes
//	40 bits      the sum, modulo 2^40, of a mix of the offsets that were taken
//
// The records between two offsets become fewer with time, on each replica by itself. So a count
// would not be enough: one replica can have as many records left as another one had, and not the
// same ones. Two different sets of offsets have the same sum once in 2^40.
const (
	digestMark = int64(1) << 62
	digestSum  = int64(1)<<40 - 1
	otherForm  = digestSum + 1
	stateUnit  = 2 * otherForm
	states     = digestMark / stateUnit
)

// FirstDigest returns the digest of a new state that has taken nothing. It depends on the time to
// the millisecond, of the last quarter of an hour, so that a database which a lost state has left
// is not taken for one of the next state.
func FirstDigest(now time.Time) int64 {
	return digestMark | (states/2+now.UnixMilli()%(states/2))*stateUnit // the lower half is for NextDigest of what is not known
}

// NextDigest returns the digest of a state whose input is read again from its start, after one that
// may not be known: then it is 0. Positions from before are never taken for ones from behind.
func NextDigest(digest int64) int64 {
	if !IsDigest(digest) {
		return digestMark | stateUnit
	}
	return digestMark | (EmptyDigest(digest)+stateUnit)&(digestMark-1)
}

// EmptyDigest returns the digest of the same state when it had taken nothing.
func EmptyDigest(digest int64) int64 { return digest &^ (stateUnit - 1) }

// SameRecords reports whether two digests are of the same records and the same state.
func SameRecords(a, b int64) bool { return a&^otherForm == b&^otherForm }

// IsDigest reports whether what a position has in the place of a stream time is a digest.
func IsDigest(streamTime int64) bool { return streamTime >= digestMark }

// HasOtherForms reports whether a key was taken in another form than its codec writes. A restore
// does not say it of what it reads: the commit does.
func HasOtherForms(digest int64) bool { return IsDigest(digest) && digest&otherForm != 0 }

// AddToDigest returns the digest with one more record that was taken.
func AddToDigest(digest, offset int64) int64 {
	return digest&^digestSum | (digest+mix(offset))&digestSum
}

// mix spreads an offset over all bits: the finalizer of SplitMix64 (Steele, Lea and Flood 2014),
// behind its increment, which leaves no offset without a trace.
func mix(offset int64) int64 {
	x := uint64(offset) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int64(x ^ x>>31)
}
