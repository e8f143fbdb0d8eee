package control

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/onceward/onceward/state"
)

// A stream of rows is a sequence of frames, each a byte that says what follows:
//
//	h  uvarint n, n bytes           JSON of a StateAt: the first frame, and only that
//	r  uvarint n, n bytes, twice    a key and its value
//	x  uvarint n, n bytes           JSON of a Refusal: why the stream is not complete; the last frame
//	e  uvarint                      the number of rows; the last frame of a complete stream
//
// A stream without x or e at its end was cut off.
const (
	frameHead  = 'h'
	frameRow   = 'r'
	frameError = 'x'
	frameEnd   = 'e'
)

// partMax bounds what a reader takes for one part: no broker takes a record of that size.
const partMax = 1 << 30

// errStream says that what came is no stream of rows, or not all of it.
var errStream = errors.New("the answer is damaged or was cut off")

// writeRows writes a stream: the head, the entries, and how it ended. Its error is that of w or of
// encoding; an error of the entries is part of the stream.
func writeRows(w *bufio.Writer, at StateAt, entries iter.Seq2[state.Entry, error], limit int64, reason func(error) string) error {
	if err := writeJSON(w, frameHead, at); err != nil {
		return err
	}
	var rows int64
	for e, err := range entries {
		if err != nil {
			return writeJSON(w, frameError, Refusal{Reason: reason(err), Text: err.Error()})
		}
		if err := errors.Join(w.WriteByte(frameRow), writePart(w, e.Key), writePart(w, e.Value)); err != nil {
			return err
		}
		if rows++; rows == limit {
			break
		}
	}
	_, err := w.Write(binary.AppendUvarint([]byte{frameEnd}, uint64(rows)))
	return err
}

func writeJSON(w *bufio.Writer, frame byte, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return errors.Join(w.WriteByte(frame), writePart(w, text))
}

func writePart(w *bufio.Writer, part []byte) error {
	var length [binary.MaxVarintLen64]byte
	if _, err := w.Write(length[:binary.PutUvarint(length[:], uint64(len(part)))]); err != nil {
		return err
	}
	_, err := w.Write(part)
	return err
}

// readHead reads the first frame.
func readHead(r *bufio.Reader) (at StateAt, err error) {
	frame, err := r.ReadByte()
	if err == nil && frame != frameHead {
		err = errStream
	}
	var text []byte
	if err == nil {
		text, err = readPart(r)
	}
	if err == nil {
		err = json.Unmarshal(text, &at)
	}
	if err != nil {
		return StateAt{}, fmt.Errorf("reading the head of the rows: %w", err)
	}
	return at, nil
}

// readRows yields what follows the head. An error is the last thing that it yields, and a stream
// without its end is one.
func readRows(r *bufio.Reader) iter.Seq2[state.Entry, error] {
	return func(yield func(state.Entry, error) bool) {
		for rows := uint64(0); ; rows++ {
			e, more, err := readRow(r, rows)
			if err != nil {
				yield(state.Entry{}, fmt.Errorf("after %d rows: %w", rows, err))
				return
			}
			if !more || !yield(e, nil) {
				return
			}
		}
	}
}

// readRow reads the frame after a number of rows; more is false at the end of a complete stream.
func readRow(r *bufio.Reader, rows uint64) (e state.Entry, more bool, err error) {
	frame, err := r.ReadByte()
	if err != nil {
		return e, false, cutOff(err)
	}
	switch frame {
	case frameRow:
		if e.Key, err = readPart(r); err == nil {
			e.Value, err = readPart(r)
		}
		return e, true, err
	case frameEnd:
		n, err := binary.ReadUvarint(r)
		if err == nil && n != rows {
			err = fmt.Errorf("%w: it ends with %d rows", errStream, n)
		}
		return e, false, cutOff(err)
	case frameError:
		text, err := readPart(r)
		if err != nil {
			return e, false, err
		}
		refusal := &Refusal{}
		if err := json.Unmarshal(text, refusal); err != nil {
			return e, false, fmt.Errorf("%w: %w", errStream, err)
		}
		return e, false, refusal
	}
	return e, false, errStream
}

// readPart reads a length and as many bytes. Large ones are not believed before they are there.
func readPart(r *bufio.Reader) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, cutOff(err)
	}
	if n > partMax {
		return nil, fmt.Errorf("%w: a part has %d bytes", errStream, n)
	}
	if n <= 64<<10 {
		part := make([]byte, n)
		_, err := io.ReadFull(r, part)
		return part, cutOff(err)
	}
	var part bytes.Buffer
	_, err = io.CopyN(&part, r, int64(n))
	return part.Bytes(), cutOff(err)
}

// cutOff makes an error of an end where none may be.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %w", errStream, io.ErrUnexpectedEOF)
	}
	return err
}
