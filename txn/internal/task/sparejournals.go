package task

// spare are the journals of a task's rounds that are over, for those that come: a journal that
// begins empty is moved a dozen times while it grows. Two rounds are in flight, so more than two
// are never needed.
type spare struct{ journals [][]Entry }

// journalMin is how long a journal may be that is kept whatever the round was like.
const journalMin = 1 << 8

func (s *spare) take() []Entry {
	n := len(s.journals)
	if n == 0 {
		return nil
	}
	j := s.journals[n-1]
	s.journals = s.journals[:n-1]
	return j
}

// put keeps a journal, unless it is far longer than its round needed, so that a burst leaves
// nothing behind.
func (s *spare) put(j []Entry) {
	if len(s.journals) == 2 || cap(j) > max(4*len(j), journalMin) {
		return
	}
	clear(j)
	s.journals = append(s.journals, j[:0])
}
