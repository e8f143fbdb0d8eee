package txn_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/txn"
)

// TestCompression: batches of outputs and of changelogs are compressed as the settings say, and not
// by default.
func TestCompression(t *testing.T) {
	for c, want := range map[txn.Compression]kgo.CompressionCodecType{
		"": kgo.CodecNone, txn.Uncompressed: kgo.CodecNone, txn.Gzip: kgo.CodecGzip, txn.Snappy: kgo.CodecSnappy, txn.LZ4: kgo.CodecLz4,
	} {
		bubble(t, "compression="+string(c), func(t *testing.T) { testCompression(t, newBroker(t, 1, "in", "out"), c, want) })
	}
	// The decoder of zstd has goroutines that belong to the process, and to no bubble.
	t.Run("compression=zstd", func(t *testing.T) {
		testCompression(t, newRealBroker(t, 1, "in", "out"), txn.Zstd, kgo.CodecZstd)
	})
}

func testCompression(t *testing.T, b *testBroker, c txn.Compression, want kgo.CompressionCodecType) {
	top, _ := keepTopology(t)
	app, stop := start(t, top, b.config(txn.Config{StateDir: t.TempDir(), Compression: c}))
	b.produce(t, &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte(strings.Repeat("compressible ", 100))})
	waitFor(t, "the record", func() bool { return app.Status().Totals.Records == 1 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"out", "counting-last-changelog"} {
		if got := b.read(t, topic, 1)[0].Attrs.CompressionType(); got != uint8(want) {
			t.Errorf("%s: the codec is %d, want %d", topic, got, want)
		}
	}
}
