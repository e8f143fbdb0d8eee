package check

import "fmt"

// readers judges what read_committed followers got: aborted read, inconsistent, nonmonotonic, skip,
// and unseen at the end.
type readers struct {
	*judge
	// next is the offset after the last record that a reader got.
	next map[readerAt]int64
	// at is when the followers of a partition got their last record.
	at map[readerAt]int64
}

type readerAt struct {
	reader    string
	topic     string
	partition int32
}

func newReaders(j *judge) *readers {
	return &readers{judge: j, next: map[readerAt]int64{}, at: map[readerAt]int64{}}
}

func (s *readers) see(e *Event) {
	if e.Read == nil || e.Read.Reader == LogReader {
		return
	}
	r := e.Read
	of := readerAt{r.Reader, r.Topic, r.Partition}
	if i, output := s.outputs[r.Topic]; output && i == 0 { // others may have records only now and then
		if last, ok := s.at[of]; ok {
			s.report.LongestPause = max(s.report.LongestPause, e.At-last)
		}
		s.at[of] = e.At
	}
	for i, offset := range r.Offsets {
		s.seeRecord(of, r, i, offset)
	}
}

func (s *readers) seeRecord(of readerAt, r *Records, i int, offset int64) {
	a := Anomaly{Topic: r.Topic, Partition: r.Partition, Offset: offset}
	if i < len(r.IDs) {
		a.ID = r.IDs[i]
	}
	next := s.next[of]
	if offset < next {
		a.Kind, a.Detail = NonMonotonic, fmt.Sprintf("%s got it after offset %d", r.Reader, next-1)
		s.found(a)
		return
	}
	s.skipped(of, next, offset)
	s.next[of] = offset + 1
	switch in := s.index.at(r.Topic, r.Partition, offset); {
	case in == r.content(i):
	case in != 0:
		a.Kind, a.Detail = Inconsistent, fmt.Sprintf("%s has another record there than the log", r.Reader)
		s.found(a)
	default:
		a.Kind, a.Detail = AbortedRead, fmt.Sprintf("%s got it, and the log does not have it as committed", r.Reader)
		if t := s.txns[r.Txn]; t != nil && t.aborted {
			a.Detail = fmt.Sprintf("%s got it, and transaction %v is aborted", r.Reader, r.Txn)
		}
		s.found(a)
	}
}

// skipped reports committed records between two that a reader got one after the other.
func (s *readers) skipped(of readerAt, from, to int64) {
	for offset := from; offset < to; offset++ {
		if s.index.at(of.topic, of.partition, offset) != 0 {
			s.found(Anomaly{Kind: Skip, Topic: of.topic, Partition: of.partition, Offset: offset,
				Detail: of.reader + " went past it"})
		}
	}
}

func (s *readers) end() {
	if !s.quiesced {
		return
	}
	for of, next := range s.next {
		for offset := next; offset < int64(len(s.logs[of.topic][of.partition])); offset++ {
			if s.index.at(of.topic, of.partition, offset) != 0 {
				s.found(Anomaly{Kind: Unseen, Topic: of.topic, Partition: of.partition, Offset: offset,
					Detail: of.reader + " has not reached it, although nothing is in flight"})
			}
		}
	}
}
