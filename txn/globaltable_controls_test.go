//go:build onceward_failpoints

package txn_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/state/pebblestore/disktest"
)

// TestNothingIsProcessedBeforeGlobalTables: while a table cannot be read to the ends of its topic,
// no record is processed. The negative control has the table serve at once, and the record meets no
// row.
func TestNothingIsProcessedBeforeGlobalTables(t *testing.T) {
	for _, c := range []struct{ broken, held, want string }{{"", "", "r1=1"}, {"globals-first", "r1=?", "r1=?"}} {
		bubble(t, "broken "+c.broken, func(t *testing.T) {
			r := newRates(t)
			r.set(20, 1)
			r.produce(t, &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("r1")})
			var held atomic.Bool
			held.Store(true)
			id := r.TopicInfo("rates").TopicID
			r.ControlKey(keyFetch, func(req kmsg.Request) (kmsg.Response, error, bool) {
				r.KeepControl()
				fetch := req.(*kmsg.FetchRequest)
				if !held.Load() || len(fetch.Topics) == 0 || fetch.Topics[0].TopicID != id {
					return nil, nil, false
				}
				resp := fetch.ResponseKind().(*kmsg.FetchResponse)
				resp.ErrorCode = kerr.NotLeaderForPartition.Code
				return resp, nil, true
			})
			cfg := r.cfg
			if c.broken != "" {
				cfg = cfg.WithFailpoints(nil, c.broken)
			}
			start(t, ratedTopology(t), cfg)
			time.Sleep(time.Minute) // many times what an application needs to process a record
			if got := r.outputs(); got != c.held {
				t.Errorf("before the table is read the outputs are %q, want %q", got, c.held)
			}
			held.Store(false)
			if got := string(r.testBroker.read(t, "out", 1)[0].Value); got != c.want {
				t.Errorf("the first answer is %q, want %q", got, c.want)
			}
		})
	}
}

// outputs returns the value of the only output, empty if there is none.
func (r *rates) outputs() string {
	r.t.Helper()
	ends, err := r.adm.ListCommittedOffsets(r.t.Context(), "out")
	if err != nil {
		r.t.Fatal(err)
	}
	sum := int64(0)
	for _, p := range ends["out"] {
		sum += p.Offset
	}
	if sum == 0 {
		return ""
	}
	return string(r.testBroker.read(r.t, "out", 1)[0].Value)
}

// TestGlobalTableKilledInRestore: a process that ends in the middle of a restore leaves a position
// that is that of the rows, whatever has reached the disk. The next process reads the rest, and the
// table is what was written. The negative control writes positions before rows, and rows are
// missing.
func TestGlobalTableKilledInRestore(t *testing.T) {
	for _, broken := range []string{"", "globals-position"} {
		bubble(t, "broken "+broken, func(t *testing.T) {
			r := newRates(t)
			r.connect(t, kgo.ProducerBatchCompression(kgo.NoCompression()))
			const records = 240
			for i := range records { // 32 KiB each, so that the restore has several steps
				name := fmt.Sprint("r", i)
				value := append(bytes.Repeat([]byte(" "), 32<<10), fmt.Append(nil, i)...)
				r.produce(t, rate(name, string(value)))
				r.want[name] = i
			}
			disk := disktest.New(1 << 40)
			var steps atomic.Int32
			killed := make(chan struct{})
			hit := func(ctx context.Context, point string) error {
				if point != "restore-batch" {
					return nil
				}
				if n := steps.Add(1); n < 4 {
					return nil
				} else if n == 4 {
					time.Sleep(time.Second) // what is in memory reaches the disk
					disk.Break(filepath.Join(r.cfg.StateDir, "globals"))
					close(killed)
				}
				<-ctx.Done()
				return ctx.Err()
			}
			onDisk := r.cfg.WithDisk(func(o *pebblestore.Options) {
				o.FlushBytes, o.FlushInterval = 64<<10, 20*time.Millisecond
				disk.Use(o)
			})
			if broken != "" {
				onDisk = onDisk.WithFailpoints(hit, broken)
			} else {
				onDisk = onDisk.WithFailpoints(hit)
			}
			_, stop := start(t, ratedTopology(t), onDisk)
			<-killed
			if err := stop(); err != nil {
				t.Log("the process that is killed says:", err)
			}
			disk.Break("")
			app, stop := start(t, ratedTopology(t), r.cfg)
			waitFor(t, "the table to serve", func() bool {
				tables := app.Status().GlobalTables
				return len(tables) == 1 && tables[0].State == "running"
			})
			rows, err := r.table(app)
			if err != nil {
				t.Fatal(err)
			}
			if equal := maps.Equal(rows, r.want); equal == (broken != "") {
				t.Errorf("the table has %d rows of %d, and the right ones: %t", len(rows), records, equal)
			}
			if n := status(t, app).Records; n == 0 || n >= records {
				t.Errorf("the next life has read %d records of %d: the kill was not in the middle", n, records)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestGlobalTableOfTrimmedTopic: a topic that is trimmed while the application runs, and grows
// again, is read again if something is missing. The join meets the old rows until then. Rows that
// were read before it was trimmed stay.
func TestGlobalTableOfTrimmedTopic(t *testing.T) {
	for _, behind := range []bool{true, false} {
		bubble(t, fmt.Sprint("behind ", behind), func(t *testing.T) {
			r := newRates(t)
			r.set(20, 1)
			app, _ := start(t, ratedTopology(t), r.cfg)
			r.current(app)
			r.ask("r1")
			hold := r.refuseFetches()
			hold.Store(behind)
			if behind {
				r.set(15, 2)
			}
			ends, err := r.adm.ListEndOffsets(t.Context(), "rates")
			if err == nil {
				_, err = r.adm.DeleteRecords(t.Context(), ends.Offsets())
			}
			if err != nil {
				t.Fatal(err)
			}
			want := "r1=3 r15=1"
			if behind {
				want = "r1=3 r15=?"
				clear(r.want)
			}
			if got := r.ask("r15"); got != "r15=1" {
				t.Errorf("before it is read again the answer is %q", got)
			}
			r.set(5, 3)
			hold.Store(false)
			r.current(app)
			if got := r.ask("r1", "r15"); got != want {
				t.Errorf("the answers are %q, want %q", got, want)
			}
			if got := bytes.Contains([]byte(r.log.String()), []byte("cause=trimmed")); got != behind {
				t.Errorf("the log says that it was trimmed: %t, want %t", got, behind)
			}
		})
	}
}

// TestGlobalTableOfShortenedTopic: a topic whose log ends before the position while the application
// runs is read again from its start, and followed when it grows.
func TestGlobalTableOfShortenedTopic(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRates(t)
		r.set(20, 1)
		app, _ := start(t, ratedTopology(t), r.cfg)
		r.current(app)
		r.ask("r1")
		read := status(t, app).Records
		var short, refused atomic.Bool
		short.Store(true)
		id := r.TopicInfo("rates").TopicID
		r.ControlKey(keyFetch, func(req kmsg.Request) (kmsg.Response, error, bool) {
			r.KeepControl()
			fetch := req.(*kmsg.FetchRequest)
			if len(fetch.Topics) == 0 || fetch.Topics[0].TopicID != id || !refused.CompareAndSwap(false, true) {
				return nil, nil, false
			}
			resp := fetch.ResponseKind().(*kmsg.FetchResponse)
			topic := kmsg.NewFetchResponseTopic()
			topic.Topic, topic.TopicID = fetch.Topics[0].Topic, id
			for _, p := range fetch.Topics[0].Partitions {
				answer := kmsg.NewFetchResponseTopicPartition()
				answer.Partition, answer.ErrorCode = p.Partition, kerr.OffsetOutOfRange.Code
				topic.Partitions = append(topic.Partitions, answer)
			}
			resp.Topics = append(resp.Topics, topic)
			return resp, nil, true
		})
		r.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
			r.KeepControl()
			list := req.(*kmsg.ListOffsetsRequest)
			if !short.Load() || len(list.Topics) != 1 || list.Topics[0].Topic != "rates" || list.Topics[0].Partitions[0].Timestamp != -1 {
				return nil, nil, false
			}
			resp := list.ResponseKind().(*kmsg.ListOffsetsResponse)
			topic := kmsg.NewListOffsetsResponseTopic()
			topic.Topic = "rates"
			for _, p := range list.Topics[0].Partitions {
				answer := kmsg.NewListOffsetsResponseTopicPartition()
				answer.Partition, answer.Offset = p.Partition, 1
				topic.Partitions = append(topic.Partitions, answer)
			}
			resp.Topics = append(resp.Topics, topic)
			return resp, nil, true
		})
		waitFor(t, "the table to be read again", func() bool {
			return bytes.Contains([]byte(r.log.String()), []byte("cause=shortened")) && status(t, app).State == "running" && status(t, app).Records > read
		})
		if got := r.ask("r1"); got != "r1=1" {
			t.Errorf("the answer is %q", got)
		}
		short.Store(false)
		r.set(10, 2)
		r.current(app)
		if got := r.ask("r1", "r15"); got != "r1=2 r15=1" {
			t.Errorf("after it has grown the answers are %q", got)
		}
	})
}
