package batch

// decodeRecords calls each for the records of a decompressed batch from offset on. All records of
// the batch are looked at.
func decodeRecords(in []byte, h header, offset int64, each func(Record) error) error {
	before := int64(-1) // the delta of the record before
	n := 0
	for ; n < h.count; n++ {
		length, used := varint(in)
		if used == 0 || length < 0 || length > int64(len(in)-used) {
			return malformed(h.base, "record %d of %d has a length of %d where %d bytes are left", n, h.count, length, len(in)-used)
		}
		body := in[used : used+int(length)]
		in = in[used+int(length):]
		r, delta, ok := decodeRecord(body)
		if !ok {
			return malformed(h.base, "record %d of %d does not fit its length of %d", n, h.count, length)
		}
		if delta <= before || delta > h.last-h.base {
			return malformed(h.base, "record %d of %d is %d offsets behind the first one, the one before it %d", n, h.count, delta, before)
		}
		before = delta
		if r.Offset = h.base + delta; r.Offset < offset {
			continue
		}
		if h.attributes&logAppendTime != 0 {
			r.Timestamp = h.maxTimestamp
		} else {
			r.Timestamp += h.firstTimestamp
		}
		if err := each(r); err != nil {
			return err
		}
	}
	if len(in) > 0 {
		return malformed(h.base, "%d bytes follow the last of %d records", len(in), h.count)
	}
	return nil
}

// decodeRecord returns a record whose timestamp is a difference still, and the difference of its
// offset.
func decodeRecord(in []byte) (r Record, delta int64, ok bool) {
	if len(in) < 1 {
		return r, 0, false
	}
	in = in[1:] // attributes, which mean nothing
	var used int
	if r.Timestamp, used = varlong(in); used == 0 {
		return r, 0, false
	}
	in = in[used:]
	if delta, used = varint(in); used == 0 {
		return r, 0, false
	}
	in = in[used:]
	if r.Key, in, ok = nullable(in); !ok {
		return r, 0, false
	}
	if r.Value, in, ok = nullable(in); !ok {
		return r, 0, false
	}
	if len(in) == 1 && in[0] == 0 {
		return r, delta, true // no headers
	}
	return r, delta, skipHeaders(in)
}

// nullable returns a byte string and what follows it. A length of -1 is null.
func nullable(in []byte) (b, rest []byte, ok bool) {
	length, used := varint(in)
	switch {
	case used == 0 || length < -1 || length > int64(len(in)-used):
		return nil, nil, false
	case length < 0:
		return nil, in[used:], true
	default:
		end := used + int(length)
		return in[used:end:end], in[end:], true
	}
}

// skipHeaders reports whether in is a list of headers, and nothing else.
func skipHeaders(in []byte) bool {
	count, used := varint(in)
	if used == 0 || count < 0 {
		return false
	}
	in = in[used:]
	for ; count > 0; count-- {
		var key []byte
		var ok bool
		if key, in, ok = nullable(in); !ok || key == nil { // a header may have no value, but it has a name
			return false
		}
		if _, in, ok = nullable(in); !ok {
			return false
		}
	}
	return len(in) == 0
}

// varint decodes a zigzag varint of at most 32 bits, and returns how many bytes it takes: 0 if it
// is cut off or has more bits. Nearly all are one or two bytes long.
func varint(in []byte) (v int64, used int) {
	if len(in) > 0 && in[0] < 0x80 {
		return unzigzag(uint64(in[0])), 1
	}
	if len(in) > 1 && in[1] < 0x80 {
		return unzigzag(uint64(in[0]&0x7f) | uint64(in[1])<<7), 2
	}
	return longVarint(in, 32)
}

// varlong is varint for at most 64 bits.
func varlong(in []byte) (int64, int) {
	if len(in) > 0 && in[0] < 0x80 {
		return unzigzag(uint64(in[0])), 1
	}
	return longVarint(in, 64)
}

func longVarint(in []byte, bits int) (int64, int) {
	var v uint64
	for i, b := range in {
		if left := bits - 7*i; left < 7 && (left <= 0 || b >= 1<<left) {
			return 0, 0
		}
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return unzigzag(v), i + 1
		}
	}
	return 0, 0
}

func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }
