package topology_test

import (
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

var (
	amountsTopic = topology.Topic("amounts", schemas.String(), schemas.Int64())
	limitsTopic  = topology.Topic("limits", schemas.String(), schemas.Int64())
	resultsTopic = topology.Topic("results", schemas.String(), schemas.Int64())
	hourly       = topology.Tumbling(time.Hour).Grace(time.Minute)
	hoursTopic   = topology.Topic("hours", topology.WindowedCodec(schemas.String(), time.Hour), schemas.Int64())
)

func amountStore(name string) topology.Store[state.Timestamped[string, int64]] {
	return topology.TimestampedStore(name, schemas.String(), schemas.Int64())
}

func hourStore(name string) topology.Store[state.Window[string, int64]] {
	return topology.WindowStore(name, schemas.String(), schemas.Int64(), 2*time.Hour)
}

func addAmounts(sum int64, r topology.Record[string, int64]) (int64, error) {
	return sum + r.Value, nil
}
func addAmount(sum int64, _ string, v int64) (int64, error)  { return sum + v, nil }
func takeAmount(sum int64, _ string, v int64) (int64, error) { return sum - v, nil }

// tableTopologies are the golden ones with aggregations, tables and windows.
var tableTopologies = map[string]func(b *topology.Builder){
	"count": func(b *topology.Builder) {
		topology.Count(topology.From(b, wordsTopic), amountStore("counts")).Into(resultsTopic)
	},
	"reduce": func(b *topology.Builder) {
		topology.Reduce(topology.From(b, amountsTopic), amountStore("sums"), addAmounts).Into(resultsTopic)
	},
	"aggregate": func(b *topology.Builder) {
		topology.Aggregate(topology.From(b, wordsTopic), amountStore("lengths"), nil,
			func(sum int64, r word) (int64, error) { return sum + int64(len(r.Value)), nil }).Into(resultsTopic)
	},
	"regrouped-count": func(b *topology.Builder) {
		s := topology.SelectKey(topology.From(b, wordsTopic), "by-word", upper)
		moved := topology.RepartitionWith(s, "words-by-word", schemas.String(), schemas.String())
		topology.Count(moved, amountStore("counts")).Into(resultsTopic)
	},
	"table": func(b *topology.Builder) {
		topology.TableFrom(b, amountsTopic, amountStore("latest")).Into(resultsTopic)
	},
	"to-table": func(b *topology.Builder) {
		topology.ToTable(topology.From(b, amountsTopic), amountStore("latest")).Into(resultsTopic)
	},
	"table-steps": func(b *topology.Builder) {
		t := topology.TableFrom(b, amountsTopic, amountStore("latest"))
		t = t.Filter("large", func(string, int64) (bool, error) { return true, nil })
		topology.MapTable(t, "double", func(_ string, v int64) (int64, error) { return 2 * v, nil }).Into(resultsTopic)
	},
	"table-join": func(b *topology.Builder) {
		topology.JoinTables(topology.TableFrom(b, amountsTopic, amountStore("latest")), topology.TableFrom(b, limitsTopic, amountStore("limits")),
			"within", func(_ string, l, r int64) (int64, error) { return l - r, nil }).Into(resultsTopic)
	},
	"stream-table-join": func(b *topology.Builder) {
		topology.LeftJoinStreamTable(topology.From(b, amountsTopic), topology.TableFrom(b, limitsTopic, amountStore("limits")), "within",
			func(_ string, v int64, limit topology.Option[int64]) (int64, error) { return limit.Or(0) - v, nil }).Into(resultsTopic)
	},
	"foreign-key-join": func(b *topology.Builder) {
		topology.LeftJoinForeignKey(topology.TableFrom(b, amountsTopic, amountStore("latest")), topology.TableFrom(b, limitsTopic, amountStore("limits")),
			"within", func(k string, _ int64) (topology.Option[string], error) { return topology.Some(k), nil },
			func(_ string, v int64, limit topology.Option[int64]) (int64, error) { return limit.Or(0) - v, nil }).Into(resultsTopic)
	},
	"stream-join": func(b *topology.Builder) {
		topology.OuterJoinStreams(topology.From(b, amountsTopic), topology.From(b, limitsTopic), "near",
			topology.Within(time.Hour).After(time.Minute).Grace(time.Second), schemas.String(), schemas.Int64(), schemas.Int64(),
			func(_ string, l, r topology.Option[int64]) (int64, error) { return l.Or(0) - r.Or(0), nil }).Into(resultsTopic)
	},
	"stream-self-join": func(b *topology.Builder) {
		s := topology.From(b, amountsTopic)
		topology.JoinStreams(s, s, "near", topology.Within(time.Hour), schemas.String(), schemas.Int64(), schemas.Int64(),
			func(_ string, l, r int64) (int64, error) { return l - r, nil }).Into(resultsTopic)
	},
	"global-table-join": func(b *topology.Builder) {
		limits := topology.GlobalTableFrom(b, limitsTopic, amountStore("limits"))
		topology.LeftJoinGlobalTable(topology.From(b, amountsTopic), limits, "within",
			func(r topology.Record[string, int64]) (topology.Option[string], error) {
				return topology.Some(r.Key), nil
			},
			func(_ string, v int64, limit topology.Option[int64]) (int64, error) { return limit.Or(0) - v, nil }).Into(resultsTopic)
	},
	"table-group": func(b *topology.Builder) {
		g := topology.GroupTable(topology.TableFrom(b, amountsTopic, amountStore("latest")), "by-size", schemas.String(), schemas.Int64(),
			func(k string, v int64) (string, int64, error) { return k, v, nil })
		topology.ReduceTable(g, amountStore("sums"), addAmount, takeAmount).Into(resultsTopic)
	},
	"windowed-count": func(b *topology.Builder) {
		topology.CountWindows(topology.From(b, wordsTopic), hourly, hourStore("counts")).Into(hoursTopic)
	},
	"windowed-closed": func(b *topology.Builder) {
		topology.CountWindows(topology.From(b, wordsTopic), hourly, hourStore("counts")).Closed().Into(hoursTopic)
	},
	"windowed-both": func(b *topology.Builder) {
		t := topology.ReduceWindows(topology.From(b, amountsTopic), hourly, hourStore("sums"), addAmounts)
		t.Into(hoursTopic)
		t.Closed().Into(topology.Topic("final-hours", topology.WindowedCodec(schemas.String(), time.Hour), schemas.Int64()))
	},
	"sliding": func(b *topology.Builder) {
		w := topology.Sliding(time.Hour).Grace(time.Minute)
		store := topology.WindowStore("counts", schemas.String(), schemas.Int64(), w.Retention())
		topology.CountWindows(topology.From(b, wordsTopic), w, store).Into(hoursTopic)
	},
	"cogroup": func(b *topology.Builder) {
		lengths := topology.Fold(topology.From(b, wordsTopic), func(sum int64, r word) (int64, error) { return sum + int64(len(r.Value)), nil })
		amounts := topology.Fold(topology.From(b, amountsTopic), addAmounts)
		topology.Cogroup([]topology.Folded[string, int64]{lengths, amounts}, amountStore("sums"), nil).Into(resultsTopic)
	},
	"versioned-table": func(b *topology.Builder) {
		store := topology.VersionedStore("latest", schemas.String(), schemas.Int64(), time.Hour)
		topology.TableFrom(b, amountsTopic, store).Into(resultsTopic)
	},
	"stream-table-join-with-grace": func(b *topology.Builder) {
		store := topology.VersionedStore("limits", schemas.String(), schemas.Int64(), time.Hour)
		topology.LeftJoinStreamTableWithGrace(topology.From(b, amountsTopic), topology.TableFrom(b, limitsTopic, store), "within", time.Minute,
			schemas.String(), schemas.Int64(),
			func(_ string, v int64, limit topology.Option[int64]) (int64, error) { return limit.Or(0) - v, nil }).Into(resultsTopic)
	},
	"suppress": func(b *topology.Builder) {
		t := topology.TableFrom(b, amountsTopic, amountStore("latest"))
		t.Suppress("limit", schemas.String(), schemas.Int64(), topology.UntilTimeLimit(time.Minute).MaxRecords(1000)).Into(resultsTopic)
	},
	"sessions": func(b *topology.Builder) {
		w := topology.Sessions(time.Minute).Grace(time.Second)
		store := topology.SessionStore("counts", schemas.String(), schemas.Int64(), w.Retention())
		topology.CountSessions(topology.From(b, wordsTopic), w, store).
			Closed().Into(topology.Topic("visits", topology.SessionCodec(schemas.String()), schemas.Int64()))
	},
	"dynamic": func(b *topology.Builder) {
		topics := []topology.TopicOf[string, string]{outTopic, secondTopic}
		topology.From(b, wordsTopic).IntoOneOf("route", func(word) (topology.TopicOf[string, string], error) { return outTopic, nil }, topics)
	},
}
