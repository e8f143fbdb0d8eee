package hanging_test

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/hanging"
)

// world is a cluster that loses markers, and what looks for them.
type world struct {
	t       *testing.T
	kafka   *virtual.Kafka
	cluster *broker.Cluster
	search  hanging.Search
	writers map[string]*kgo.Client
	// lose is asked at each end of a transaction; nil loses nothing.
	lose func(virtual.End) virtual.Loss
}

const own = "app~i~0~0"

// everywhere loses all markers.
func everywhere(virtual.End) virtual.Loss { return func(string, int32) bool { return false } }

// but loses the markers of the partitions of one topic, and no others.
func but(topic string) func(virtual.End) virtual.Loss {
	return func(virtual.End) virtual.Loss { return func(t string, _ int32) bool { return t != topic } }
}

func bubble(t *testing.T, f func(t *testing.T, w *world)) {
	virtual.Test(t, func(t *testing.T) {
		network := virtual.NewNetwork(t, 1)
		kafka := virtual.NewKafka(t, network, 2, kfake.SeedTopics(2, "out"), kfake.SeedTopics(1, "in", "app-s-changelog", "other"))
		cluster, err := broker.Connect(t.Context(), broker.Config{
			Brokers: kafka.Brokers(), Dialer: network.Host("operator").Dial, Logger: slog.New(slog.DiscardHandler),
		}, "app")
		if err != nil {
			t.Fatal(err)
		}
		defer cluster.Close()
		w := &world{t: t, kafka: kafka, cluster: cluster, writers: map[string]*kgo.Client{}}
		kafka.LoseMarkers(t, func(e virtual.End) virtual.Loss {
			if w.lose == nil {
				return nil
			}
			return w.lose(e)
		})
		offsets, err := cluster.OffsetsPartition(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.search = hanging.Search{
			Application: "app", Internal: map[string]bool{"app-s-changelog": true},
			Partitions: map[string][]int32{"out": {0, 1}, "app-s-changelog": {0}, broker.OffsetsTopic: {offsets}},
		}
		f(t, w)
	})
}

// begin writes a record to each partition named, and returns the transaction.
func (w *world) begin(id string, to ...kgo.Record) (producerID int64, epoch int16) {
	w.t.Helper()
	cl := w.writers[id]
	if cl == nil {
		cl = w.kafka.Client(w.t, id, kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		w.writers[id] = cl
	}
	if err := cl.BeginTransaction(); err != nil {
		w.t.Fatal(err)
	}
	for _, r := range to {
		if err := cl.ProduceSync(w.t.Context(), &r).FirstErr(); err != nil {
			w.t.Fatal(err)
		}
	}
	producerID, epoch, err := cl.ProducerID(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return producerID, epoch
}

func (w *world) end(id string, commit bool) {
	w.t.Helper()
	if err := w.writers[id].EndTransaction(w.t.Context(), kgo.TransactionEndTry(commit)); err != nil {
		w.t.Fatal(err)
	}
}

// offset adds an offset of the group to the transaction that is open.
func (w *world) offset(id string, producerID int64, epoch int16, at int64) {
	w.t.Helper()
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch, req.Generation = id, "app", producerID, epoch, -1
	rt := kmsg.NewTxnOffsetCommitRequestTopic()
	rt.Topic = "in"
	rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	rp.Offset, rp.LeaderEpoch = at, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.TxnOffsetCommit), 5) // the last one that names topics
	resp, err := req.RequestWith(w.t.Context(), w.kafka.Client(w.t, "committer", kgo.MaxVersions(versions)))
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) find() []hanging.Finding {
	w.t.Helper()
	found, err := hanging.Find(w.t.Context(), w.cluster, w.search)
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

// one returns the only open transaction.
func (w *world) one() hanging.Finding {
	w.t.Helper()
	found := w.find()
	if len(found) != 1 {
		w.t.Fatalf("%d are open, want one: %+v", len(found), found)
	}
	return found[0]
}

// committed counts the records below the last stable offset of a partition that were not aborted,
// and says whether all of it is stable.
func (w *world) committed(topic string, partition int32) (n int, stable bool) {
	w.t.Helper()
	ends, err := w.cluster.Ends(w.t.Context(), topic)
	if err != nil {
		w.t.Fatal(err)
	}
	end := ends[topic][partition]
	md, err := w.cluster.Admin().Metadata(w.t.Context(), topic)
	if err != nil {
		w.t.Fatal(err)
	}
	r := w.cluster.NewReader(topic, md.Topics[topic].ID, partition, true, 1<<20)
	for at := int64(0); at < end.LastStable; {
		f, err := r.Fetch(w.t.Context(), at, 0)
		if err != nil {
			w.t.Fatal(err)
		}
		n += len(f.Records)
		at = f.Next
	}
	return n, end.LastStable == end.HighWatermark
}

func record(topic string, partition int32) kgo.Record {
	return kgo.Record{Topic: topic, Partition: partition, Key: []byte("k"), Value: []byte("v")}
}

// TestFindAndRepair: transactions whose markers are lost are found with the evidence that exists,
// and a repair makes readers see what was committed and nothing else. Ongoing transactions are told
// from them.
func TestFindAndRepair(t *testing.T) {
	for _, commit := range []bool{true, false} {
		bubble(t, func(t *testing.T, w *world) {
			w.lose = but("out")
			producerID, epoch := w.begin(own, record("out", 0), record("app-s-changelog", 0))
			w.offset(own, producerID, epoch, 4)
			if f := w.one(); !f.Ongoing() || !f.AtWork() || f.Hanging() || !f.Own {
				t.Errorf("before its end it is %+v", f)
			}
			w.end(own, commit)
			want, records := hanging.Abort, 0
			if commit {
				want, records = hanging.Commit, 1
			}
			f := w.one()
			if f.ProducerID != producerID || f.Epoch != epoch || !f.Own || f.Ongoing() || f.Decision.Verdict != want || len(f.Open) != 2 ||
				len(f.Evidence.Markers) != 1 || f.Evidence.Markers[0].Topic != "app-s-changelog" {
				t.Fatalf("found %+v", f)
			}
			if f.Open[0].Topic != "out" || f.Open[1].Topic != broker.OffsetsTopic {
				t.Errorf("the order is %+v", f.Open)
			}
			if _, stable := w.committed("out", 0); stable {
				t.Error("nothing hangs")
			}
			w.lose = nil
			slices.Reverse(f.Open) // whatever the order in which they are given
			done, err := hanging.Repair(t.Context(), w.cluster, f, want, nil)
			if err != nil || len(done) != 2 || done[0].Topic != "out" || done[1].Topic != broker.OffsetsTopic || !done[0].Written || !done[1].Written {
				t.Errorf("the repair has done %+v, %v", done, err)
			}
			if n, stable := w.committed("out", 0); n != records || !stable {
				t.Errorf("readers see %d records, want %d; stable %t", n, records, stable)
			}
			at := int64(-1)
			if commit {
				at = 4
			}
			if got := w.stableOffset(); got != at {
				t.Errorf("the committed offset is %d, want %d", got, at)
			}
			if left := w.find(); len(left) > 0 {
				t.Errorf("after the repair %+v are open", left)
			}
			again, err := hanging.Repair(t.Context(), w.cluster, f, want, nil)
			if err != nil || len(again) != 2 || again[0].Written || again[1].Written {
				t.Errorf("a second repair has done %+v, %v", again, err)
			}
			w.begin(own, record("out", 0)) // the id goes on
			w.end(own, true)
			if n, stable := w.committed("out", 0); n != records+1 || !stable {
				t.Errorf("then readers see %d records, stable %t", n, stable)
			}
		})
	}
}

// stableOffset returns the committed offset of the input, -1 for none.
func (w *world) stableOffset() int64 {
	w.t.Helper()
	offsets, err := w.cluster.Commits(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, o := range offsets {
		return o.At
	}
	return -1
}

// TestNothingSaysHowItEnded: where all markers are lost, and the id is initialised, nothing
// decides; what was asked before that does.
func TestNothingSaysHowItEnded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.lose = everywhere
		w.begin(own, record("out", 0), record("app-s-changelog", 0))
		w.end(own, true)
		before, err := w.cluster.Transactions(t.Context(), own)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.cluster.EndTransactions(t.Context(), time.Minute, own); err != nil {
			t.Fatal(err)
		}
		f := w.one()
		if f.Decision.Verdict != hanging.Unknown || !f.Own { // by the changelog: no coordinator names the producer any more
			t.Errorf("found %+v", f)
		}
		if _, err := hanging.Repair(t.Context(), w.cluster, f, hanging.Unknown, nil); !errors.Is(err, hanging.ErrUndecided) {
			t.Errorf("a repair without a decision returned %v", err)
		}
		w.search.Before = named(before)
		if f = w.one(); f.Decision.Verdict != hanging.Commit {
			t.Errorf("with %+v from before found %+v", before, f)
		}
		w.search.Before = nil
		w.search.Databases = func(id int64, e int16) (applied, notApplied []string) {
			if id == f.ProducerID && e == f.Epoch {
				notApplied = []string{"in_0"}
			}
			return nil, notApplied
		}
		if f = w.one(); f.Decision.Verdict != hanging.Abort {
			t.Errorf("with a database that has not applied it found %+v", f)
		}
	})
}

// named is what coordinators have said of transactional ids, as a search takes it.
func named(said map[string]broker.Transaction) (out []broker.Named) {
	for id, tx := range said {
		out = append(out, broker.Named{TransactionalID: id, Transaction: tx})
	}
	return out
}

// TestMissingMarkerIsNoEvidence: the coordinator knew a transaction as ongoing, and a commit of it
// was on its way, which left a marker in one partition only. That none is found says that it was
// aborted, but not if the marker is gone, or lies before the time of the records.
func TestMissingMarkerIsNoEvidence(t *testing.T) {
	for _, c := range []struct {
		name    string
		commit  bool
		ahead   time.Duration // of the clock, the record that stays open
		deleted bool          // the log of the partition with the marker begins behind it
		ago     time.Duration // the begin, as the coordinator says it
		want    hanging.Verdict
		reason  string
	}{
		{name: "aborted", want: hanging.Abort, reason: "which aborts it"},
		{name: "committed", commit: true, reason: "has a commit marker of it"},
		{name: "committed, and its events are ahead of the clock", commit: true, ahead: 2 * time.Hour, reason: "has a commit marker of it"},
		{name: "committed, and the marker was deleted", commit: true, deleted: true, reason: "the log of out[0] begins at offset 2"},
		{name: "markers may be compacted away", ago: 13 * time.Hour, reason: "brokers may have deleted its markers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.lose = func(virtual.End) virtual.Loss {
					return func(topic string, partition int32) bool { return c.commit && topic == "out" && partition == 0 }
				}
				late := record("app-s-changelog", 0)
				late.Timestamp = time.Now().Add(c.ahead)
				w.begin(own, record("out", 0), late)
				before, err := w.cluster.Transactions(t.Context(), own)
				if err != nil {
					t.Fatal(err)
				}
				w.end(own, c.commit)
				if err := w.cluster.EndTransactions(t.Context(), time.Minute, own); err != nil {
					t.Fatal(err)
				}
				if c.deleted {
					if err := w.cluster.DeleteBefore(t.Context(), map[string]map[int32]int64{"out": {0: 2}}); err != nil {
						t.Fatal(err)
					}
				}
				tx := before[own]
				tx.Started = tx.Started.Add(-c.ago)
				w.search.Before = []broker.Named{{TransactionalID: own, Transaction: tx}}
				f := w.one()
				if f.Decision.Verdict != c.want || !strings.Contains(strings.Join(f.Decision.Reasons, "\n"), c.reason) {
					t.Errorf("the decision is %s: %q, want %s with %q", f.Decision.Verdict, f.Decision.Reasons, c.want, c.reason)
				}
			})
		})
	}
}

// TestDowngradedCluster: without transaction.version 2 own producers keep their epochs, and what
// coordinators say is about any of their transactions.
func TestDowngradedCluster(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.lose = everywhere
		w.begin(own, record("app-s-changelog", 0))
		w.end(own, true)
		if f := w.one(); f.Decision.Verdict != hanging.Commit {
			t.Errorf("before the downgrade found %+v", f)
		}
		req := kmsg.NewPtrUpdateFeaturesRequest()
		req.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: "transaction.version", MaxVersionLevel: 1, UpgradeType: 3}}
		resp, err := req.RequestWith(t.Context(), w.kafka.Client(t, "upgrader"))
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err != nil {
			t.Fatal(err)
		}
		if f := w.one(); f.Decision.Verdict != hanging.Unknown {
			t.Errorf("after the downgrade found %+v", f)
		}
	})
}

// TestTopicsThatTheClusterDoesNotName are told, and not left out without a word.
func TestTopicsThatTheClusterDoesNotName(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		b := topology.NewBuilder("app")
		bytes := func(topic string) topology.TopicOf[[]byte, []byte] {
			return topology.Topic(topic, schemas.Bytes(), schemas.Bytes())
		}
		in := topology.From(b, bytes("in"))
		in.Into(bytes("out"))
		in.Into(bytes("missing"))
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		s, err := hanging.SearchOf(t.Context(), w.cluster, top)
		if err != nil || !slices.Equal(s.Absent, []string{"missing", "app-rounds"}) || s.Complete() == nil || len(s.Partitions["out"]) != 2 {
			t.Errorf("the search is %+v, %v", s, err)
		}
	})
}

// TestRepairLooksAgain: a repair writes nothing where the transaction has changed since it was
// found, or the producer has begun another one, and no offsets before the rest.
func TestRepairLooksAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.lose = but("out")
		producerID, epoch := w.begin(own, record("out", 0), record("app-s-changelog", 0))
		w.offset(own, producerID, epoch, 4)
		w.end(own, true)
		w.lose = nil
		f := w.one()
		nothing := func(what string, want error, f hanging.Finding, chosen func(broker.OpenTransaction) bool) {
			t.Helper()
			done, err := hanging.Repair(t.Context(), w.cluster, f, hanging.Commit, chosen)
			if !errors.Is(err, want) || len(done) > 0 {
				t.Errorf("%s: the repair has done %+v, %v, want %v", what, done, err, want)
			}
			if _, stable := w.committed("out", 0); stable {
				t.Fatalf("%s: a marker was written", what)
			}
		}
		nothing("offsets first", hanging.ErrOrder, f, func(o broker.OpenTransaction) bool { return o.Topic == broker.OffsetsTopic })
		other := f
		other.Open = slices.Clone(f.Open)
		other.Open[0].Epoch++
		nothing("another epoch", hanging.ErrChanged, other, nil)
		other.Open[0].Epoch--
		other.Open[0].FirstOffset++
		nothing("another first offset", hanging.ErrChanged, other, nil)

		// One that was taken for hanging, and lives.
		id, e := w.begin("app~i~0~1", record("out", 1))
		var live hanging.Finding
		for _, found := range w.find() {
			if found.ProducerID == id {
				live = found
			}
		}
		if !live.Ongoing() {
			t.Fatalf("%d/%d is %+v", id, e, live)
		}
		nothing("an ongoing one", hanging.ErrAtWork, live, nil)
		live.Named = nil
		live.Decision.Verdict = hanging.Commit
		nothing("an ongoing one that was not known as such", hanging.ErrAtWork, live, nil)
		if _, stable := w.committed("out", 1); stable {
			t.Error("a marker was written to a live transaction")
		}
		w.end("app~i~0~1", false)
		if n, stable := w.committed("out", 1); n != 0 || !stable {
			t.Errorf("the live transaction was aborted, and readers see %d, stable %t", n, stable)
		}
	})
}

// TestEndsMeanwhile: a transaction that ends between the two questions, to the leaders and to the
// coordinators, is not taken for hanging.
func TestEndsMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.begin(own, record("out", 0))
		ended := false
		w.kafka.ControlKey(int16(kmsg.ListTransactions), func(kmsg.Request) (kmsg.Response, error, bool) {
			w.kafka.KeepControl()
			if !ended {
				ended = true
				w.kafka.SleepControl(func() { w.end(own, true) })
			}
			return nil, nil, false
		})
		if found := w.find(); len(found) > 0 || !ended {
			t.Errorf("found %+v, ended %t", found, ended)
		}
	})
}

// TestDenied: what may not be read is named as a missing permission, and what may is looked at all
// the same; without the permission to write markers a repair names that.
func TestDenied(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.lose = but("out")
		w.begin(own, record("out", 0), record("app-s-changelog", 0))
		w.end(own, true)
		w.kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.WriteTxnMarkers}, Topic: "out", Err: kerr.ClusterAuthorizationFailed})
		f := w.one()
		_, err := hanging.Repair(t.Context(), w.cluster, f, hanging.Commit, nil)
		denied, ok := errors.AsType[*broker.PermissionError](err)
		if !ok || denied.Missing[0].String() != `ClusterAction on Cluster "kafka-cluster"` {
			t.Errorf("without ClusterAction the repair returned %v", err)
		}
		w.kafka.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.DescribeProducers}, Topic: "app-s-changelog", Err: kerr.TopicAuthorizationFailed, Count: -1,
		})
		found, err := hanging.Find(t.Context(), w.cluster, w.search)
		denied, ok = errors.AsType[*broker.PermissionError](err)
		if !ok || denied.Missing[0].String() != `Read on Topic "app-s-changelog"` || len(found) != 1 || found[0].Decision.Verdict != hanging.Commit {
			t.Errorf("without Read on a topic found %+v, %v", found, err)
		}
	})
}

// TestNotKnownToHang: of a transaction that no coordinator names nothing is known: it can be an
// ongoing one that this process may not see. One of the application's hangs if all coordinators
// were there to say that its producer id is gone.
func TestNotKnownToHang(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		foreign, _ := w.begin("somebody", record("out", 0))
		mine, _ := w.begin(own, record("app-s-changelog", 0))
		hidden := map[int64]bool{foreign: true, mine: true}
		w.kafka.ControlKey(int16(kmsg.ListTransactions), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			w.kafka.KeepControl()
			filters := &kreq.(*kmsg.ListTransactionsRequest).ProducerIDFilters
			*filters = slices.DeleteFunc(*filters, func(id int64) bool { return hidden[id] })
			if len(*filters) == 0 {
				*filters = []int64{1 << 40} // none would stand for all
			}
			return nil, nil, false
		})
		hangs := func() (known, hanging map[int64]bool) {
			known, hanging = map[int64]bool{}, map[int64]bool{}
			for _, f := range w.find() {
				known[f.ProducerID], hanging[f.ProducerID] = f.Known(), f.Hanging()
			}
			return known, hanging
		}
		known, hanging := hangs()
		if known[foreign] || hanging[foreign] {
			t.Error("a transaction of another application that is not named is taken for one that hangs")
		}
		if !known[mine] || !hanging[mine] { // as after another producer id was assigned
			t.Error("a transaction of the application whose producer id is gone is not found")
		}
		// It is not gone if the id that had it says otherwise.
		before, err := w.cluster.Transactions(t.Context(), own)
		if err != nil {
			t.Fatal(err)
		}
		w.search.Before = named(before)
		if known, hanging = hangs(); !known[mine] || hanging[mine] {
			t.Error("an ongoing transaction is taken for one that hangs although its coordinator knows its transactional id")
		}
		// Nor if a coordinator is away.
		w.search.Before = nil
		w.kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "__transaction_state", Err: kerr.LeaderNotAvailable, Count: -1})
		if known, hanging = hangs(); known[mine] || hanging[mine] {
			t.Error("a transaction is taken for one that hangs while a coordinator is away")
		}
	})
}

// TestAnswerAboutAnotherID: an answer that names another transactional id than the one that has the
// producer id makes the transaction neither the application's nor decides it. About the id that has
// it, it does both.
func TestAnswerAboutAnotherID(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.lose = everywhere
		producerID, epoch := w.begin("somebody", record("out", 0))
		w.end("somebody", true)
		for id, own := range map[string]bool{"app~i~0~0": false, "somebody": true} {
			w.search.Before = []broker.Named{{TransactionalID: id, Transaction: broker.Transaction{State: "CompleteCommit", ProducerID: producerID, Epoch: epoch + 1}}}
			if f := w.one(); f.Own != own || len(f.Evidence.Before) > 0 != own || (f.Decision.Verdict == hanging.Commit) != own {
				t.Errorf("with an answer about %s found %+v", id, f)
			}
		}
	})
}

// TestSeveralProducerIDsOfAnID: an id that has had several producer ids is asked for each of them.
func TestSeveralProducerIDsOfAnID(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.lose = everywhere
		for i := range 2 {
			id := []string{"somebody", "else"}[i]
			producerID, epoch := w.begin(id, record("out", int32(i)))
			w.end(id, true)
			w.search.Before = append(w.search.Before, broker.Named{TransactionalID: own, Transaction: broker.Transaction{State: "CompleteCommit", ProducerID: producerID, Epoch: epoch + 1}})
		}
		w.kafka.ControlKey(int16(kmsg.ListTransactions), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			w.kafka.KeepControl()
			kreq.(*kmsg.ListTransactionsRequest).ProducerIDFilters = []int64{1 << 40} // the ids that have them now are away
			return nil, nil, false
		})
		w.kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "__transaction_state", Err: kerr.LeaderNotAvailable, Count: -1})
		found := w.find()
		if len(found) != 2 || !found[0].Gone || !found[1].Gone {
			t.Errorf("found are %+v", found)
		}
	})
}

// TestLookWithoutLeader: what other partitions hold is found although one does not answer, and the
// error says so.
func TestLookWithoutLeader(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.lose = but("out")
		w.begin(own, record("out", 0), record("app-s-changelog", 0))
		w.end(own, true)
		w.kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeProducers}, Topic: "app-s-changelog", Err: kerr.NotLeaderForPartition, Count: -1})
		w.search.Patience = 5 * time.Second
		found, err := hanging.Look(t.Context(), w.cluster, w.search)
		if err == nil || len(found) != 1 || !found[0].Hanging() || found[0].Open[0].Topic != "out" {
			t.Errorf("found %+v, %v", found, err)
		}
		if _, err := hanging.Find(t.Context(), w.cluster, w.search); err == nil {
			t.Error("evidence was looked for in what does not answer")
		}
	})
}
