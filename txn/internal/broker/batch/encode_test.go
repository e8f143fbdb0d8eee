package batch_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/txn/internal/broker/batch"
	"github.com/onceward/onceward/txn/internal/broker/batch/batchtest"
)

// given is a record that a test adds.
type given struct {
	at         batch.Destination
	timestamp  int64
	key, value []byte
	headers    []batch.Header
}

func randomGiven(rng *rand.Rand) given {
	bytesOf := func(most int) []byte {
		n := rng.IntN(most+1) - 1
		if n < 0 {
			return nil
		}
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.IntN(3))
		}
		return b
	}
	g := given{
		at:        batch.Destination{Topic: fmt.Sprint("t", rng.IntN(3)), Partition: rng.Int32N(4)},
		timestamp: 1_700_000_000_000 + rng.Int64N(1<<20) - 1<<19, key: bytesOf(40), value: bytesOf(300),
	}
	if rng.IntN(50) == 0 {
		g.value = bytes.Repeat([]byte{byte(rng.IntN(256))}, rng.IntN(200<<10)) // more than a chunk
	}
	if rng.IntN(30) == 0 {
		g.timestamp = []int64{0, -5, math.MaxInt64 / 2_000_000, math.MinInt64 / 2_000_000}[rng.IntN(4)] // what the client's time reaches
	}
	for range rng.IntN(3) * rng.IntN(2) {
		g.headers = append(g.headers, batch.Header{Key: string(bytesOf(20)), Value: bytesOf(50)})
	}
	return g
}

// written are the sealed batches of partitions, one behind the other, with the offsets that a
// broker would give them.
type written struct {
	logs map[batch.Destination][]byte
	ends map[batch.Destination]int64
	next map[batch.Destination]int32
}

func newWritten() *written {
	return &written{map[batch.Destination][]byte{}, map[batch.Destination]int64{}, map[batch.Destination]int32{}}
}

var identity = batch.Identity{ProducerID: 1 << 40, Epoch: 7}

// write seals batches as a sender does and appends them as a broker does.
func (w *written) write(t *testing.T, batches []*batch.Batch, c *batch.Compressor, limit int) {
	t.Helper()
	for _, b := range batches {
		at := batch.Destination{Topic: b.Topic, Partition: b.Partition}
		b.Seal(identity, w.next[at], c)
		out := b.AppendTo(nil)
		if len(out) != b.Size() || len(out) > limit {
			t.Fatalf("a batch has %d bytes, says %d, and %d are allowed", len(out), b.Size(), limit)
		}
		var parsed kmsg.RecordBatch
		if err := parsed.ReadFrom(out); err != nil {
			t.Fatal(err)
		}
		if parsed.FirstOffset != 0 || parsed.PartitionLeaderEpoch != -1 || parsed.ProducerID != identity.ProducerID ||
			parsed.ProducerEpoch != identity.Epoch || parsed.FirstSequence != w.next[at] || parsed.NumRecords != b.Count() ||
			parsed.LastOffsetDelta != b.Count()-1 || parsed.Attributes&^7 != batchtest.Transactional {
			t.Fatalf("the batch is %+v", parsed)
		}
		binary.BigEndian.PutUint64(out, uint64(w.ends[at])) // the checksum does not cover it
		b.SetBase(w.ends[at])
		w.logs[at] = append(w.logs[at], out...)
		w.ends[at] += int64(b.Count())
		w.next[at] += b.Count()
		b.Release()
	}
}

// check compares what the client reads of the logs with what was added.
func (w *written) check(t *testing.T, want map[batch.Destination][]given) {
	t.Helper()
	for at, records := range want {
		got, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Topic: at.Topic, Partition: at.Partition},
			&kmsg.FetchResponseTopicPartition{RecordBatches: w.logs[at]}, ofTheClient, nil)
		if got.Err != nil || len(got.Records) != len(records) {
			t.Fatalf("%v: %d records (%v), want %d", at, len(got.Records), got.Err, len(records))
		}
		for i, r := range got.Records {
			g := records[i]
			if r.Offset != int64(i) || r.Timestamp.UnixMilli() != g.timestamp || !same(r.Key, g.key) || !same(r.Value, g.value) ||
				r.ProducerID != identity.ProducerID || len(r.Headers) != len(g.headers) {
				t.Fatalf("%v: record %d is not what was added", at, i)
			}
			for j, h := range r.Headers {
				if h.Key != g.headers[j].Key || !same(h.Value, g.headers[j].Value) {
					t.Fatalf("%v: header %d of record %d is not what was added", at, j, i)
				}
			}
		}
	}
}

// encodeRandomly adds random records to a set, a transaction after the other, takes batches at
// random, and has the client read them.
func encodeRandomly(t *testing.T, seed uint64, limit int, codec kgo.CompressionCodec) {
	rng := rand.New(rand.NewPCG(seed, 4))
	compressor, err := batch.NewCompressor(codec)
	if err != nil {
		t.Fatal(err)
	}
	set := batch.NewSet(func(string) int { return limit })
	for range 1 + rng.IntN(3) {
		w, want := newWritten(), map[batch.Destination][]given{}
		var places []batch.Place
		var offsets []int64
		records := 0
		for range rng.IntN(600) {
			g := randomGiven(rng)
			place, err := batch.Add(set, g.at.Topic, g.at.Partition, g.timestamp, g.key, g.value, g.headers)
			if set.Destination(place.Destination) != g.at {
				t.Fatalf("the destination is %v, want %v", set.Destination(place.Destination), g.at)
			}
			if errors.Is(err, batch.ErrTooLarge) {
				if n := len(g.key) + len(g.value); n < limit-61-32 && len(g.headers) == 0 {
					t.Fatalf("a record of %d bytes was too large for %d", n, limit)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			places, offsets = append(places, place), append(offsets, int64(len(want[g.at])))
			want[g.at] = append(want[g.at], g)
			records++
			if rng.IntN(100) == 0 {
				w.write(t, set.Take(rng.IntN(2) == 0, nil), compressor, limit)
			}
		}
		w.write(t, set.Take(true, nil), compressor, limit)
		if set.Waiting() != 0 || set.Ready() != 0 || set.Records() != records || len(set.Take(true, nil)) > 0 {
			t.Fatalf("%d bytes wait in a set of which all was taken", set.Waiting())
		}
		w.check(t, want)
		for i, p := range places {
			if at, known := p.Offset(); !known || at != offsets[i] {
				t.Fatalf("the offset of record %d is %d (%t), want %d", i, at, known, offsets[i])
			}
		}
		set.Reset()
	}
}

// TestEncodeAsTheClientReads: the client reads of the batches what was added, in the order of each
// partition, with every codec and limit. Sequence numbers, offsets and sizes fit. A set is used for
// one transaction after the other.
func TestEncodeAsTheClientReads(t *testing.T) {
	seeds := uint64(60)
	if virtual.RaceDetector {
		seeds = 10
	}
	for seed := range seeds {
		limit := []int{512, 5000, 1_000_012}[seed%3]
		encodeRandomly(t, seed, limit, batchtest.Codecs[seed%uint64(len(batchtest.Codecs))])
	}
}

// FuzzEncode is TestEncodeAsTheClientReads with any seed, limit and codec.
func FuzzEncode(f *testing.F) {
	f.Add(uint64(1), uint32(600), byte(0))
	f.Add(uint64(2), uint32(100_000), byte(3))
	f.Fuzz(func(t *testing.T, seed uint64, limit uint32, codec byte) {
		encodeRandomly(t, seed, 100+int(limit%(2<<20)), batchtest.Codecs[int(codec)%len(batchtest.Codecs)])
	})
}

// TestTooLarge: a record that fits exactly is taken, one byte more is not, and the records around
// it are as if it had not been there.
func TestTooLarge(t *testing.T) {
	const limit = 512
	set := batch.NewSet(func(string) int { return limit })
	add := func(timestamp int64, value int) error {
		_, err := batch.Add[batch.Header](set, "t", 0, timestamp, nil, make([]byte, value), nil)
		return err
	}
	fits := 0
	for n := limit; n > 0; n-- {
		if err := add(int64(1e12)+int64(n), n); err == nil { // the first one begins the batch with another timestamp
			fits = n
			break
		} else if !errors.Is(err, batch.ErrTooLarge) {
			t.Fatal(err)
		}
	}
	if err := add(5, 1); err != nil {
		t.Fatal(err)
	}
	w := newWritten()
	batches := set.Take(true, nil)
	if len(batches) != 2 || batches[0].Size() != limit {
		t.Fatalf("%d batches, the first of %d bytes, want one of %d and one more", len(batches), batches[0].Size(), limit)
	}
	w.write(t, batches, nil, limit)
	w.check(t, map[batch.Destination][]given{{Topic: "t"}: {
		{timestamp: int64(1e12) + int64(fits), value: make([]byte, fits)}, {timestamp: 5, value: make([]byte, 1)},
	}})
}

// TestAhead: only batches that are worth a request are sent ahead, and what is taken ahead comes
// before the rest of its partition.
func TestAhead(t *testing.T) {
	set := batch.NewSet(func(string) int { return 1 << 20 })
	add := func(partition int32, n int) {
		if _, err := batch.Add[batch.Header](set, "t", partition, 0, nil, make([]byte, n), nil); err != nil {
			t.Fatal(err)
		}
	}
	add(0, 1000)
	add(1, 100<<10)
	if set.Ready() < 100<<10 || set.Ready() > 101<<10 {
		t.Errorf("%d bytes are ready", set.Ready())
	}
	if ahead := set.Take(false, nil); len(ahead) != 1 || ahead[0].Partition != 1 {
		t.Fatalf("%d batches are sent ahead, want that of partition 1", len(ahead))
	}
	if set.Ready() != 0 || set.Waiting() < 1000 || set.Waiting() > 1100 {
		t.Errorf("%d bytes wait, %d are ready", set.Waiting(), set.Ready())
	}
	add(1, 10)
	rest := set.Take(true, nil)
	if len(rest) != 2 || rest[0].Partition != 0 || rest[1].Partition != 1 || rest[1].Count() != 1 {
		t.Errorf("%d batches are left", len(rest))
	}
}

// TestUnknownOffset: the place of a record tells nothing before its batch is acknowledged, and
// nothing if the broker has named no offset.
func TestUnknownOffset(t *testing.T) {
	set := batch.NewSet(func(string) int { return 1 << 20 })
	place, err := batch.Add[batch.Header](set, "t", 0, 0, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, known := place.Offset(); known {
		t.Error("a record that was not sent has an offset")
	}
	set.Take(true, nil)[0].SetBase(-1)
	if _, known := place.Offset(); known {
		t.Error("a record has an offset that the broker has not named")
	}
	if _, known := (batch.Place{}).Offset(); known {
		t.Error("no record has an offset")
	}
}

var (
	manyKey, manyValue = []byte("12345678"), bytes.Repeat([]byte("v"), 100)
	manyHeaders        = []batch.Header{{Key: "h", Value: manyKey}}
)

// encodeMany encodes n records of 108 bytes, and returns how large the batches were. dst is used
// again.
func encodeMany(tb testing.TB, set *batch.Set, taken []*batch.Batch, dst []byte, n int, c *batch.Compressor) (out []byte, size int) {
	for i := range n {
		if _, err := batch.Add(set, "t", int32(i%4), int64(1e12)+int64(i), manyKey, manyValue, manyHeaders); err != nil {
			tb.Fatal(err)
		}
	}
	for _, b := range set.Take(true, taken[:0]) {
		b.Seal(identity, 0, c)
		size += b.Size()
		dst = b.AppendTo(dst[:0])
		b.Release()
	}
	set.Reset()
	return dst, size
}

// TestEncodeAllocatesNothing: neither per record nor per batch, once the memory of a transaction
// before is there.
func TestEncodeAllocatesNothing(t *testing.T) {
	if virtual.RaceDetector {
		t.Skip("pools drop at random under the race detector")
	}
	set := batch.NewSet(func(string) int { return 1_000_012 })
	taken, dst := make([]*batch.Batch, 0, 64), make([]byte, 0, 2<<20)
	if allocs := testing.AllocsPerRun(20, func() { encodeMany(t, set, taken, dst, 20_000, nil) }); allocs > 0 {
		t.Errorf("%v allocations for 20000 records", allocs)
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, codec := range []struct {
		name string
		kgo.CompressionCodec
	}{{"none", kgo.NoCompression()}, {"lz4", kgo.Lz4Compression()}, {"zstd", kgo.ZstdCompression()}} {
		b.Run(codec.name, func(b *testing.B) {
			compressor, err := batch.NewCompressor(codec.CompressionCodec)
			if err != nil {
				b.Fatal(err)
			}
			const n = 20_000
			set := batch.NewSet(func(string) int { return 1_000_012 })
			taken, dst := make([]*batch.Batch, 0, 64), make([]byte, 0, 2<<20)
			b.ReportAllocs()
			for b.Loop() {
				_, size := encodeMany(b, set, taken, dst, n, compressor)
				b.SetBytes(int64(size))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
		})
	}
}
