package flights

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

// flightSchema is the head of a value of by-carrier in Avro's single-object encoding: C3 01 and the
// CRC-64-AVRO fingerprint of the schema onceward.example.Flight, computed apart from the project's
// code.
const flightSchema = "c3019d6156b42ab8bf69"

// decodeFlight reads a value of by-carrier. Text is not part of it.
func decodeFlight(b []byte) (dataRow, error) {
	head, err := hex.DecodeString(flightSchema)
	if err != nil {
		return dataRow{}, err
	}
	if !bytes.HasPrefix(b, head) {
		return dataRow{}, errors.New("the value does not begin as one of the schema")
	}
	d := avroReader{rest: b[len(head):]}
	r := dataRow{Line: int(d.long()), Carrier: d.text(), Flight: int(d.long())}
	if d.branch() {
		r.Tail = d.text()
	}
	r.Origin, r.Destination = d.text(), d.text()
	r.Scheduled = d.long()
	r.Departed = d.boolean()
	if r.Arrived = d.branch(); r.Arrived {
		r.Delay = int(d.long())
	}
	if len(d.rest) > 0 && d.err == nil {
		d.err = errors.New("there is something behind the last field")
	}
	return r, d.err
}

// avroReader reads Avro's binary encoding. After an error it reads zeros.
type avroReader struct {
	rest []byte
	err  error
}

var errShort = errors.New("the value ends too early")

// long reads an int or a long: zigzag, as the varints of package binary.
func (d *avroReader) long() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.err = errShort
		d.rest = nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *avroReader) text() string {
	n := d.long()
	if n < 0 || n > int64(len(d.rest)) {
		d.err = errShort
		d.rest = nil
		return ""
	}
	s := string(d.rest[:n])
	d.rest = d.rest[n:]
	return s
}

func (d *avroReader) boolean() bool {
	if len(d.rest) == 0 {
		d.err = errShort
		return false
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b == 1
}

// branch reads which branch of a union with null follows: 0 is null.
func (d *avroReader) branch() bool {
	n := d.long()
	if n != 0 && n != 1 {
		d.err = fmt.Errorf("branch %d of a union of two", n)
	}
	return n == 1
}
