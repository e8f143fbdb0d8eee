package txn_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/txn"
)

// TestCompression: batches of outputs and of changelogs are compressed as the settings say, and not by default.
func TestCompression(t *testing.T) {
	for c, want := range map[txn.Compression]kgo.CompressionCodecType{
		"": kgo.CodecNone, txn.Uncompressed: kgo.CodecNone, txn.Gzip: kgo.CodecGzip, txn.Snappy: kgo.CodecSnappy, txn.LZ4: kgo.CodecLz4,
		txn.Zstd: kgo.CodecZstd,
	} {
		t.Run("compression="+string(c), func(t *testing.T) {
			t.Parallel()
			b := newBroker(t, 1, "in", "out")
			top, _ := keepTopology(t)
			app, stop := start(t, top, txn.Config{Brokers: b.ListenAddrs(), StateDir: t.TempDir(), Compression: c})
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
		})
	}
}
