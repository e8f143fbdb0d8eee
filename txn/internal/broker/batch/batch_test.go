package batch_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/txn/internal/broker/batch"
	"github.com/onceward/onceward/txn/internal/broker/batch/batchtest"
)

// decode copies what a decoder returns.
func decode(d *batch.Decoder, p *kmsg.FetchResponseTopicPartition, offset int64) (records []batch.Record, next int64, err error) {
	next, err = d.Decode(p, offset, func(r batch.Record) error {
		r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
		records = append(records, r)
		return nil
	})
	return records, next, err
}

// ofTheClient decompresses for compare. A new one for each answer would allocate buffers of
// megabytes.
var ofTheClient = kgo.DefaultDecompressor()

// compare says how the records differ from what the client makes of the same answer, nothing if
// they do not.
func compare(p *kmsg.FetchResponseTopicPartition, offset int64, got []batch.Record, next int64) string {
	want, wantNext := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset: offset, IsolationLevel: kgo.ReadCommitted(), Topic: "t"}, p, ofTheClient, nil)
	if want.Err != nil {
		return fmt.Sprintf("the client says %v", want.Err)
	}
	if next != wantNext {
		return fmt.Sprintf("next is %d, want %d", next, wantNext)
	}
	if len(got) != len(want.Records) {
		return fmt.Sprintf("%d records, want %d", len(got), len(want.Records))
	}
	for i, w := range want.Records {
		g := got[i]
		at := time.Unix(0, g.Timestamp*1e6) // as the client has it, which does not reach behind the year 2262
		if g.Offset != w.Offset || !at.Equal(w.Timestamp) || !same(g.Key, w.Key) || !same(g.Value, w.Value) {
			return fmt.Sprintf("record %d is %+v, want %+v", i, g, w)
		}
	}
	return ""
}

// same tells nothing from null.
func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

// TestDecodeAsTheClient: on random logs with transactions, compression, compaction and an end
// anywhere, the decoder returns what the client's own one does, from any offset, with one decoder
// for all of them.
func TestDecodeAsTheClient(t *testing.T) {
	d := batch.NewDecoder()
	var records, aborted, cut int
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		p := batchtest.RandomLog(rng, 1+rng.IntN(30))
		aborted += len(p.AbortedTransactions)
		first := int64(binary.BigEndian.Uint64(p.RecordBatches))
		if rng.IntN(2) == 0 {
			cut++
			p.RecordBatches = p.RecordBatches[:rng.IntN(len(p.RecordBatches)+1)]
		}
		for range 4 {
			offset := max(first+rng.Int64N(300)-20, 0)
			got, next, err := decode(d, &p, offset)
			if err != nil {
				t.Fatalf("seed %d from %d: %v", seed, offset, err)
			}
			if diff := compare(&p, offset, got, next); diff != "" {
				t.Fatalf("seed %d from %d: %s", seed, offset, diff)
			}
			if peeked := batch.Next(&p, offset); peeked != next {
				t.Fatalf("seed %d from %d: the headers say %d and the records %d", seed, offset, peeked, next)
			}
			records += len(got)
		}
	}
	if records < 10_000 || aborted < 100 || cut < 100 {
		t.Errorf("the logs had %d records, %d aborted transactions and %d cuts: too few to mean anything", records, aborted, cut)
	}
}

// TestMalformed: what breaks the format is an error that says where, and nothing of the broken
// batch moves the position.
func TestMalformed(t *testing.T) {
	one := []batchtest.Record{{Delta: 0, Timestamp: 1_700_000_000_005, Key: []byte("secret"), Value: []byte("secret")}}
	two := append(one, batchtest.Record{Delta: 3, Timestamp: 1_700_000_000_006, Key: []byte("secret")})
	good := batchtest.Encode(100, 0, 1, 0, kgo.NoCompression(), one)
	put32 := func(at int, v uint32) func([]byte) { return func(b []byte) { binary.BigEndian.PutUint32(b[at:], v) } }
	for _, tc := range []struct {
		name   string
		batch  []byte
		change func([]byte)
		says   string
		torn   bool // the checksum is left as it was
	}{
		{"a byte flipped", batchtest.Encode(101, 3, 1, 0, kgo.NoCompression(), two), func(b []byte) { b[len(b)-3] ^= 1 }, "checksum", true},
		{"an old format", batchtest.Encode(101, 3, 1, 0, kgo.NoCompression(), two), func(b []byte) { b[16] = 1 }, "version 1", false},
		{"a length below the header's", batchtest.Encode(101, 3, 1, 0, kgo.NoCompression(), two), put32(8, 48), "its length is 48", false},
		{"a negative length", batchtest.Encode(101, 3, 1, 0, kgo.NoCompression(), two), put32(8, 1<<31), "its length is -2147483648", false},
		{"more records than it has", batchtest.Encode(101, 3, 1, 0, kgo.NoCompression(), two), put32(57, 3), "record 2 of 3", false},
		{"fewer records than it has", batchtest.Encode(101, 3, 1, 0, kgo.NoCompression(), two), put32(57, 1), "follow the last of 1 records", false},
		{"a negative number of records", batchtest.Encode(101, 3, 1, 0, kgo.NoCompression(), two), put32(57, 1<<31), "-2147483648 records", false},
		{"a negative last offset", batchtest.Encode(101, 3, 1, 0, kgo.NoCompression(), two), put32(23, 1<<31), "offsets behind its first", false},
		{"a record behind the last offset", batchtest.Encode(101, 2, 1, 0, kgo.NoCompression(), two), func([]byte) {}, "3 offsets behind", false},
		{"two records at one offset", batchtest.Encode(101, 2, 1, 0, kgo.NoCompression(), append(one, one...)), func([]byte) {}, "0 offsets behind", false},
		{"a record longer than the batch", batchtest.Encode(101, 0, 1, 0, kgo.NoCompression(), one), func(b []byte) { b[61] = 0x7e }, "a length of 63", false},
		{"a key longer than the record", batchtest.Encode(101, 0, 1, 0, kgo.NoCompression(), one), func(b []byte) { b[65] = 0x7e }, "does not fit", false},
		{"headers that are not there", batchtest.Encode(101, 0, 1, 0, kgo.NoCompression(), one), func(b []byte) { b[len(b)-1] = 2 }, "does not fit", false},
		{"no zstd", batchtest.Encode(101, 0, 1, 3, kgo.NoCompression(), one), func(b []byte) { b[22] = 4 }, "cannot be decompressed", false},
		{"no such compression", batchtest.Encode(101, 0, 1, 0, kgo.NoCompression(), one), func(b []byte) { b[22] = 7 }, "cannot be decompressed", false},
		{"a compressed marker", batchtest.Encode(101, 0, 1, batchtest.Control, kgo.SnappyCompression(), one), func([]byte) {}, "compressed control", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.change(tc.batch)
			if !tc.torn {
				batchtest.Seal(tc.batch)
			}
			p := kmsg.FetchResponseTopicPartition{RecordBatches: append(bytes.Clone(good), tc.batch...)}
			got, next, err := decode(batch.NewDecoder(), &p, 50)
			if !errors.Is(err, batch.ErrMalformed) || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), "at offset 101") {
				t.Errorf("the error is %v, want one at offset 101 that says %q", err, tc.says)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error tells what the records say: %v", err)
			}
			if next != 101 || len(got) == 0 || got[0].Offset != 100 {
				t.Errorf("next is %d and the records are %+v, want those of the batch before", next, got)
			}
		})
	}
}

// TestDecodeStops: an error of the caller's ends the decoding and comes back.
func TestDecodeStops(t *testing.T) {
	p := flatLog(1000, kgo.NoCompression())
	enough, n := errors.New("enough"), 0
	next, err := batch.NewDecoder().Decode(&p, 0, func(batch.Record) error {
		if n++; n == 700 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || errors.Is(err, batch.ErrMalformed) || n != 700 || next != 500 {
		t.Errorf("%d records, next is %d: %v", n, next, err)
	}
}

// TestDecodeAllocatesNothing: neither for a record nor for an answer that is not compressed.
func TestDecodeAllocatesNothing(t *testing.T) {
	p := flatLog(2000, kgo.NoCompression())
	d, n := batch.NewDecoder(), 0
	each := func(batch.Record) error { n++; return nil }
	allocs := testing.AllocsPerRun(10, func() {
		if _, err := d.Decode(&p, 0, each); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 0 || n == 0 {
		t.Errorf("%v allocations for %d records", allocs, n)
	}
}

// flatLog has n records of about 28 bytes in batches of 500, as a changelog under load.
func flatLog(n int, codec kgo.CompressionCodec) (p kmsg.FetchResponseTopicPartition) {
	rng := rand.New(rand.NewPCG(1, 1))
	for base := 0; base < n; base += 500 {
		entries := make([]batchtest.Record, 500)
		for i := range entries {
			key := fmt.Appendf(nil, "account-%08d", rng.IntN(1_000_000))
			entries[i] = batchtest.Record{Delta: int64(i), Timestamp: 1_700_000_000_000 + int64(i), Key: key, Value: randomValue(rng)}
		}
		p.RecordBatches = append(p.RecordBatches, batchtest.Encode(int64(base), 499, 7, batchtest.Transactional, codec, entries)...)
	}
	return p
}

func randomValue(rng *rand.Rand) []byte {
	return binary.BigEndian.AppendUint64([]byte{1, 0, 0, 0}, rng.Uint64()>>20)
}

// BenchmarkDecode compares with the client's own decoding, per record.
func BenchmarkDecode(b *testing.B) {
	const records = 50_000
	for _, codec := range []struct {
		name  string
		codec kgo.CompressionCodec
	}{{"none", batchtest.Codecs[0]}, {"snappy", batchtest.Codecs[1]}, {"lz4", batchtest.Codecs[2]}, {"zstd", batchtest.Codecs[3]}} {
		p := flatLog(records, codec.codec)
		report := func(b *testing.B) {
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*records), "ns/record")
			b.ReportMetric(float64(len(p.RecordBatches))/records, "bytes/record")
		}
		b.Run("decoder/"+codec.name, func(b *testing.B) {
			d := batch.NewDecoder()
			for b.Loop() {
				n := 0
				if _, err := d.Decode(&p, 0, func(batch.Record) error { n++; return nil }); err != nil || n != records {
					b.Fatal(n, err)
				}
			}
			report(b)
		})
		b.Run("client/"+codec.name, func(b *testing.B) {
			d := kgo.DefaultDecompressor()
			for b.Loop() {
				f, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{IsolationLevel: kgo.ReadCommitted()}, &p, d, nil)
				if f.Err != nil || len(f.Records) != records {
					b.Fatal(f.Err)
				}
			}
			report(b)
		})
	}
}

// FuzzDecode: no input makes the decoder panic, every error is ErrMalformed, and what it takes
// without one the client takes too, and makes the same of it.
func FuzzDecode(f *testing.F) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 2))
		f.Add(batchtest.RandomLog(rng, 1+rng.IntN(4)).RecordBatches, int64(rng.IntN(1000)))
	}
	f.Fuzz(func(t *testing.T, data []byte, offset int64) {
		sealAll(data)
		p := kmsg.FetchResponseTopicPartition{RecordBatches: data}
		got, next, err := decode(batch.NewDecoder(), &p, offset)
		if err != nil {
			if !errors.Is(err, batch.ErrMalformed) {
				t.Fatalf("the error is %v", err)
			}
			return
		}
		if diff := compare(&p, offset, got, next); diff != "" {
			t.Fatal(diff)
		}
	})
}

// sealAll sets the checksums, which a fuzzer would not find.
func sealAll(b []byte) {
	for len(b) > 61 {
		length := int64(int32(binary.BigEndian.Uint32(b[8:]))) + 12
		if length < 61 || length > int64(len(b)) {
			return
		}
		batchtest.Seal(b[:length])
		b = b[length:]
	}
}

// TestNewestAt: the batch that contains an offset says it, one that was emptied too, and the
// batches beside it do not.
func TestNewestAt(t *testing.T) {
	none := kgo.NoCompression()
	p := kmsg.NewFetchResponseTopicPartition()
	p.RecordBatches = append(p.RecordBatches, batchtest.Encode(10, 4, -1, 0, none, []batchtest.Record{{Delta: 0, Timestamp: 1_700_000_000_007}})...)
	p.RecordBatches = append(p.RecordBatches, batchtest.Encode(20, 0, -1, batchtest.Control, none, []batchtest.Record{
		{Timestamp: 1_700_000_000_009, Key: []byte{0, 0, 0, 1}},
	})...)
	for offset, want := range map[int64]int64{9: 0, 10: 1_700_000_000_007, 14: 1_700_000_000_007, 15: 0, 19: 0, 20: 1_700_000_000_009, 21: 0} {
		if got, ok := batch.NewestAt(&p, offset); got != want || ok != (want != 0) {
			t.Errorf("offset %d: %d, %t, want %d", offset, got, ok, want)
		}
	}
	p.RecordBatches = p.RecordBatches[:len(p.RecordBatches)-1]
	if _, ok := batch.NewestAt(&p, 20); ok {
		t.Error("a batch that is cut off says it")
	}
}
