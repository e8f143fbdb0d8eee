package inbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// Archive writes each id that the inbox forgets to a topic, once: its key is the id, its value the
// entry, and its timestamp that of the record in whose turn it went. It needs [Retain].
// [EntryCodec] and schemas.JSON[Entry] are codecs for it.
//
// An entry is written when the inbox gets a record and the retention is over, two at most for each
// record. So the topic may be behind for a while after stream time has jumped, and never ahead.
func Archive(topic topology.TopicOf[string, Entry]) Option {
	return func(s *settings) error {
		if s.archive != nil {
			return fmt.Errorf("Archive: %w", errTwice)
		}
		s.archive = &topic
		return nil
	}
}

var errArchiveForever = errors.New("Archive with Forever: no id expires, so there is nothing to archive")

// The archive is a queue of entries in the order of their arrival, in a key-value store: rows from
// 1, and the ends of the queue in row 0. The store that forgets cannot be asked for what it is
// about to forget without a scan, and drops it at once when stream time jumps.
type archiveRow struct {
	// Head is the first row and Tail the one behind the last, of row 0.
	Head int64 `json:"head,omitempty"`
	Tail int64 `json:"tail,omitempty"`
	// ID and Entry are those of the other rows.
	ID    string `json:"id,omitempty"`
	Entry Entry  `json:"entry,omitzero"`
}

func archiveStore(name string) topology.Store[state.KeyValue[int64, archiveRow]] {
	return topology.KeyValueStore(name+"-archive", schemas.Int64(), schemas.Codec[archiveRow](archiveCodec{}))
}

// archivedMax is how many entries one record can send to the archive. It is more than a record
// adds, so that a queue that is behind catches up.
const archivedMax = 2

// archive is the archive of one task.
type archive struct {
	queue     state.KeyValue[int64, archiveRow]
	retention int64 // milliseconds
	emit      topology.Emit[string, Entry]
	archived  *topology.Counter
}

// expire writes what is over at now, the time of the record at work.
func (a *archive) expire(c *topology.Context, now int64) error {
	ends, ok, err := a.queue.Get(0)
	if err != nil || !ok {
		return err
	}
	head := ends.Head
	for n := 0; n < archivedMax && ends.Head < ends.Tail; n++ {
		row, ok, err := a.queue.Get(ends.Head)
		switch {
		case err != nil:
			return err
		case !ok:
			return topology.Fail(topology.Corruption, schemas.Reason("the queue of the archive lacks a row"))
		case row.Entry.FirstSeen > now-a.retention:
			n = archivedMax
			continue
		}
		record := topology.Record[string, Entry]{
			Key: row.ID, Value: row.Entry, Timestamp: now,
			Headers: []topology.Header{}, // those of the record at work are about another id
		}
		if err := a.emit(c, record); err != nil {
			return err
		}
		if err := a.queue.Delete(ends.Head); err != nil {
			return err
		}
		a.archived.Inc()
		ends.Head++
	}
	if ends.Head == head {
		return nil
	}
	return a.queue.Put(0, ends)
}

// add puts an entry at the end of the queue.
func (a *archive) add(id string, e Entry) error {
	ends, ok, err := a.queue.Get(0)
	if err != nil {
		return err
	}
	if !ok {
		ends = archiveRow{Head: 1, Tail: 1}
	}
	if err := a.queue.Put(ends.Tail, archiveRow{ID: id, Entry: e}); err != nil {
		return err
	}
	ends.Tail++
	return a.queue.Put(0, ends)
}

const (
	archiveEnds      = 1
	archiveEntry     = 2
	archiveEndsBytes = 17
)

type archiveCodec struct{}

func (archiveCodec) Name() string { return "inbox-archive-1" }

func (c archiveCodec) Append(dst []byte, r archiveRow) ([]byte, error) {
	if r.Tail != 0 {
		if r.Head < 1 || r.Tail < r.Head || r.ID != "" || r.Entry != (Entry{}) {
			return dst, codecError(c.Name(), schemas.OpAppend, -1, "not the ends of a queue")
		}
		dst = binary.BigEndian.AppendUint64(append(dst, archiveEnds), uint64(r.Head))
		return binary.BigEndian.AppendUint64(dst, uint64(r.Tail)), nil
	}
	if r.Head != 0 || identity.CheckID(r.ID) != nil {
		return dst, codecError(c.Name(), schemas.OpAppend, -1, "not an id and its entry")
	}
	b, err := entryCodec{}.Append(append(dst, archiveEntry), r.Entry)
	if err != nil {
		return dst, codecError(c.Name(), schemas.OpAppend, -1, schemas.ReasonOf(err))
	}
	return append(b, r.ID...), nil
}

func (c archiveCodec) Decode(b []byte) (archiveRow, error) {
	fail := func(offset int, reason string) (archiveRow, error) {
		return archiveRow{}, codecError(c.Name(), schemas.OpDecode, offset, reason)
	}
	switch {
	case len(b) == archiveEndsBytes && b[0] == archiveEnds:
		r := archiveRow{Head: int64(binary.BigEndian.Uint64(b[1:9])), Tail: int64(binary.BigEndian.Uint64(b[9:]))}
		if r.Head < 1 || r.Tail < r.Head {
			return fail(1, "not the ends of a queue")
		}
		return r, nil
	case len(b) > 1+entryBytes && b[0] == archiveEntry:
		entry, err := entryCodec{}.Decode(b[1 : 1+entryBytes])
		if err != nil {
			return fail(1, schemas.ReasonOf(err))
		}
		id := b[1+entryBytes:]
		if len(id) > identity.IDBytesMax || !utf8.Valid(id) {
			return fail(1+entryBytes, "not an id")
		}
		return archiveRow{ID: string(id), Entry: entry}, nil
	}
	return fail(min(len(b), 1), "the row has a format that this build does not read")
}
