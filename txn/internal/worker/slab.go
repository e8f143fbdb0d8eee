package worker

import "github.com/onceward/onceward/txn/internal/broker"

// slab hands out records to produce, in chunks that one round after the other uses: to make them
// anew for each round was a sixth of what is allocated, which the collector pays for by the byte.
//
// A record may be used again when nobody can read it any more. The client reads it until it is
// acknowledged, so a round gives back what it was lent once it is committed, for which all of its
// records had to be acknowledged. One that is aborted gives nothing back: the client may be at work
// on a request of it.
//
// It is for one goroutine.
type slab struct{ free [][]broker.Record }

// slabRecords is the number of records in a chunk.
const slabRecords = 256

// lent is what one round has of a slab.
type lent struct {
	chunks [][]broker.Record
	// used is how many records of the last chunk are taken.
	used int
}

// next lends one more record, which is empty.
func (s *slab) next(l *lent) *broker.Record {
	if len(l.chunks) == 0 || l.used == slabRecords {
		l.chunks, l.used = append(l.chunks, s.chunk()), 0
	}
	r := &l.chunks[len(l.chunks)-1][l.used]
	l.used++
	return r
}

func (s *slab) chunk() []broker.Record {
	if n := len(s.free); n > 0 {
		c := s.free[n-1]
		s.free = s.free[:n-1]
		return c
	}
	return make([]broker.Record, slabRecords)
}

// takeBack takes what a committed round was lent. Of what is free it keeps as much as two rounds
// like this one need, so that a burst leaves nothing behind.
func (s *slab) takeBack(l *lent) {
	for i, c := range l.chunks {
		if i == len(l.chunks)-1 {
			clear(c[:l.used])
		} else {
			clear(c)
		}
	}
	s.free = append(s.free, l.chunks...)
	if most := 2 * len(l.chunks); len(s.free) > most {
		clear(s.free[most:])
		s.free = s.free[:most]
	}
	*l = lent{}
}

// lists are those of a round's outputs and of where they come from.
type lists struct {
	outputs []*broker.Record
	origins []origin
}

// spare are the lists of rounds that are over, for those that come. Two rounds are in flight, so
// more are never needed.
type spare struct{ lists []lists }

// listsMin is how long a list may be that is kept whatever the round was like.
const listsMin = 1 << 10

func (s *spare) take() lists {
	if n := len(s.lists); n > 0 {
		l := s.lists[n-1]
		s.lists = s.lists[:n-1]
		return l
	}
	return lists{}
}

// put keeps the lists of a committed round, unless they are far longer than it needed. They may not
// be read any more.
func (s *spare) put(l lists) {
	n := len(l.outputs)
	if len(s.lists) == 2 || cap(l.outputs) > max(4*n, listsMin) {
		return
	}
	clear(l.outputs)
	clear(l.origins)
	s.lists = append(s.lists, lists{l.outputs[:0], l.origins[:0]})
}
