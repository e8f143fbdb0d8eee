package simulation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/check"
	"github.com/onceward/onceward/e2e/testapp"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// The topics of the subject of joins, beside those of [Tables] and [Links].
const (
	OrdersTopic   = "orders"
	PaymentsTopic = "payments"
	LabelsTopic   = "labels"
	// RowTopic has the orders with the rows of the left table, RowOrNoneTopic those without one as
	// well.
	RowTopic       = "order-row"
	RowOrNoneTopic = "order-row-or-none"
	// LabelTopic has the orders with rows of the global table.
	LabelTopic = "order-label"
	// PaidTopic has the inner join of orders and payments, PaidOrNotTopic the left one and
	// AnyTopic the outer one.
	PaidTopic      = "paid"
	PaidOrNotTopic = "paid-or-not"
	AnyTopic       = "paid-or-ordered"
)

const (
	// joinBefore and joinAfter are how much older or younger than its order a payment may be.
	joinBefore = 4 * time.Second
	joinAfter  = 9 * time.Second
	// joinGrace is longer than the time of all inputs, so that no record is too late for a store. The
	// outer join has hurriedGrace, so that windows close under faults. There a record that a task reads
	// late can miss others.
	joinGrace    = 15 * time.Minute
	hurriedGrace = 20 * time.Second
	labelKeys    = 5
	// labelKey is the label of the order of an id.
	labelKey = "label-%d"
)

// joins has all joins. Its tables and links are those of the other subjects.
type joins struct {
	plain
	tables *tables
	links  *links
	made   int64
	labels map[string]int64
	// finished says that the last orders are sent, after which rows of the joins of streams expire.
	finished atomic.Bool
}

// Joins has all joins: of a stream with a table (inner and left) and with a global table, of two
// streams (inner, left and outer), and those of [Tables] and [Links].
func Joins() (Subject, error) {
	b := topology.NewBuilder("joins")
	left := declareTables(b, rightTable())
	declareLinks(b)
	key, moment, joined := schemas.String(), schemas.JSON[Moment](), schemas.JSON[Joined]()
	at := topology.EventTime(func(r topology.Record[string, Moment]) (time.Time, error) { return time.UnixMilli(r.Value.At), nil })
	orders := topology.From(b, topology.Topic(OrdersTopic, key, moment), at)
	payments := topology.From(b, topology.Topic(PaymentsTopic, key, moment), at)
	topology.JoinStreamTable(orders, left, "with-row", func(_ string, o Moment, row int64) (Joined, error) {
		return Joined{o.ID, row}, nil
	}).Into(topology.Topic(RowTopic, key, joined))
	topology.LeftJoinStreamTable(orders, left, "with-or-without-row", func(_ string, o Moment, row topology.Option[int64]) (Joined, error) {
		return Joined{o.ID, row.Or(0)}, nil
	}).Into(topology.Topic(RowOrNoneTopic, key, joined))
	labels := topology.GlobalTableFrom(b, topology.Topic(LabelsTopic, key, schemas.Int64()),
		topology.TimestampedStore("label-table", key, schemas.Int64()))
	topology.LeftJoinGlobalTable(orders, labels, "with-label", func(r topology.Record[string, Moment]) (topology.Option[string], error) {
		return topology.Some(labelOf(r.Value.ID)), nil
	}, func(_ string, o Moment, row topology.Option[int64]) (Joined, error) {
		return Joined{o.ID, row.Or(0)}, nil
	}).Into(topology.Topic(LabelTopic, key, joined))
	w := topology.Within(0).Before(joinBefore).After(joinAfter).Grace(joinGrace)
	topology.JoinStreams(orders, payments, "paid-inner", w, key, moment, moment, func(_ string, o, p Moment) (Joined, error) {
		return Joined{o.ID, p.ID}, nil
	}).Into(topology.Topic(PaidTopic, key, joined))
	topology.LeftJoinStreams(orders, payments, "paid-left", w, key, moment, moment, func(_ string, o Moment, p topology.Option[Moment]) (Joined, error) {
		return Joined{o.ID, p.Or(Moment{}).ID}, nil
	}).Into(topology.Topic(PaidOrNotTopic, key, joined))
	topology.OuterJoinStreams(orders, payments, "paid-outer", w.Grace(hurriedGrace), key, moment, moment, func(_ string, o, p topology.Option[Moment]) (Joined, error) {
		return Joined{o.Or(Moment{}).ID, p.Or(Moment{}).ID}, nil
	}).Into(topology.Topic(AnyTopic, key, joined))
	t, err := b.Build()
	if err != nil {
		return nil, err
	}
	return &joins{
		plain: newPlain("joins", t), tables: newTables("joins", t), links: newLinks("joins", t), labels: map[string]int64{},
	}, nil
}

func labelOf(id int64) string { return fmt.Sprintf(labelKey, id%labelKeys) }

// Feed gives a third of the inputs to each part.
func (s *joins) Feed(f *Feed, n int, inflight *sync.WaitGroup) error {
	part := (n + 2) / 3
	if err := s.tables.Feed(f, part, inflight); err != nil {
		return err
	}
	if err := s.links.Feed(f, part, inflight); err != nil {
		return err
	}
	records := make([]*kgo.Record, 0, part)
	for range part {
		var r *kgo.Record
		var err error
		switch n := f.Rng.IntN(10); {
		case n == 0:
			label := labelOf(f.Rng.Int64N(labelKeys))
			s.labels[label]++
			r = &kgo.Record{Topic: LabelsTopic, Key: []byte(label)}
			r.Value, err = schemas.Int64().Append(nil, s.labels[label])
		case n < 6:
			r, err = s.moment(OrdersTopic, tableKey(f), f)
		default:
			r, err = s.moment(PaymentsTopic, tableKey(f), f)
		}
		if err != nil {
			return err
		}
		records = append(records, r)
	}
	return s.send(f, records, inflight)
}

// tableKey is the key of one of the rows of the tables.
func tableKey(f *Feed) string { return fmt.Sprint("key-", f.Rng.IntN(tableKeys)) }

// moment is an order or a payment that is up to latenessMax late.
func (s *joins) moment(topic, key string, f *Feed) (*kgo.Record, error) {
	return s.event(topic, key, time.Now().Add(-time.Duration(f.Rng.Int64N(int64(latenessMax)))))
}

func (s *joins) event(topic, key string, at time.Time) (*kgo.Record, error) {
	s.made++
	value, err := json.Marshal(Moment{ID: s.made, At: at.UnixMilli()})
	return &kgo.Record{Topic: topic, Key: []byte(key), Value: value}, err
}

// SettlesBeforeFinish: the last order of a partition closes all windows, so it must not overtake a
// payment.
func (s *joins) SettlesBeforeFinish() {}

// Finish sends an order of each key, far ahead: every partition gets one at least, which closes the
// windows of all other records.
func (s *joins) Finish(f *Feed, inflight *sync.WaitGroup) error {
	s.finished.Store(true)
	var records []*kgo.Record
	at := time.Now().Add(finishAhead)
	for i := range tableKeys {
		r, err := s.event(OrdersTopic, fmt.Sprint("key-", i), at)
		if err != nil {
			return err
		}
		records = append(records, r)
	}
	return s.send(f, records, inflight)
}

// Dump leaves out the rows of the joins of streams once they expire. A database removes them without a
// record in its changelog.
func (s *joins) Dump(history *testapp.Recorder, stateDir, source string) (int, error) {
	return testapp.DumpStores(history, s.t, stateDir, source, func(_ *state.Task, st *check.State) error {
		if strings.HasPrefix(st.Store, "paid-outer") || s.finished.Load() && strings.HasPrefix(st.Store, "paid-") {
			st.Rows = check.NoRows
		}
		return nil
	})
}

// Judge computes every join again. The tables and the links have their own judgements. An order
// meets rows as judgeRows says, labels as judgeLabels says, and payments as pairs says.
func (s *joins) Judge(log map[string][][]*kgo.Record) []string {
	wrong := slices.Concat(s.judgeInputs(log, OrdersTopic, PaymentsTopic, LabelsTopic), s.tables.Judge(log), s.links.Judge(log))
	add := func(topic string, p int, err error) {
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %s[%d]: %v", s.name, topic, p, err))
		}
	}
	versions := map[string]int64{}
	for _, r := range slices.Concat(log[LabelsTopic]...) {
		version, err := schemas.Int64().Decode(r.Value)
		add(LabelsTopic, int(r.Partition), err)
		versions[string(r.Key)] = max(versions[string(r.Key)], version)
	}
	for p := range log[OrdersTopic] {
		orders, err := momentsOf(log[OrdersTopic][p])
		add(OrdersTopic, p, err)
		payments, err := momentsOf(log[PaymentsTopic][p])
		add(PaymentsTopic, p, err)
		rows, err := newTableLog(log[LeftTopic][p])
		if err != nil {
			add(LeftTopic, p, err)
			continue
		}
		results := map[string][]joinedMoment{}
		for _, topic := range []string{RowTopic, RowOrNoneTopic, LabelTopic, PaidTopic, PaidOrNotTopic, AnyTopic} {
			if p < len(log[topic]) {
				results[topic], err = joinedOf(log[topic][p])
				add(topic, p, err)
			}
		}
		add(RowOrNoneTopic, p, judgeRows(results[RowOrNoneTopic], orders, rows))
		with := slices.DeleteFunc(slices.Clone(results[RowOrNoneTopic]), func(j joinedMoment) bool { return j.Right == 0 })
		if !slices.Equal(results[RowTopic], with) {
			add(RowTopic, p, fmt.Errorf("%d results of the inner join differ from the %d of the left one with a row", len(results[RowTopic]), len(with)))
		}
		add(LabelTopic, p, judgeLabels(results[LabelTopic], orders, versions))
		add(PaidTopic, p, pairs{patient: true}.judge(results[PaidTopic], orders, payments))
		add(PaidOrNotTopic, p, pairs{patient: true, left: true}.judge(results[PaidOrNotTopic], orders, payments))
		add(AnyTopic, p, pairs{left: true, right: true}.judge(results[AnyTopic], orders, payments))
	}
	slices.Sort(wrong)
	return slices.Compact(wrong)
}

// keyedMoment is an order or a payment.
type keyedMoment struct {
	key string
	Moment
}

// joinedMoment is a result of a join, with the time of its record.
type joinedMoment struct {
	key string
	Joined
	at int64
}

func momentsOf(records []*kgo.Record) (moments []keyedMoment, err error) {
	for _, r := range records {
		m := keyedMoment{key: string(r.Key)}
		if err := json.Unmarshal(r.Value, &m.Moment); err != nil {
			return nil, fmt.Errorf("offset %d: %w", r.Offset, err)
		}
		moments = append(moments, m)
	}
	return moments, nil
}

func joinedOf(records []*kgo.Record) (joined []joinedMoment, err error) {
	for _, r := range records {
		j := joinedMoment{key: string(r.Key), at: r.Timestamp.UnixMilli()}
		if err := json.Unmarshal(r.Value, &j.Joined); err != nil {
			return nil, fmt.Errorf("offset %d: %w", r.Offset, err)
		}
		joined = append(joined, j)
	}
	return joined, nil
}

// judgeRows wants a result for each order, in their order, with a row that the table has had. A task
// takes the records of the table in their order, so the rows do not go back from one order to the
// next, whatever their keys.
func judgeRows(results []joinedMoment, orders []keyedMoment, rows *tableLog) error {
	if len(results) != len(orders) {
		return fmt.Errorf("%d results of %d orders", len(results), len(orders))
	}
	taken := 0 // the fewest records of the table that the task can have taken
	for i, o := range orders {
		r := results[i]
		if r.key != o.key || r.Left != o.ID || r.at != o.At {
			return fmt.Errorf("result %d is %+v, want that of order %+v", i, r, o)
		}
		for rows.value(o.key, taken) != r.Right {
			if taken++; taken > len(rows.keys) {
				return fmt.Errorf("result %d is %+v, and the table has no such row after those before", i, r)
			}
		}
	}
	return nil
}

// judgeLabels wants a result for each order, in their order, with a version that the label of the
// order has had. No commit names the position of the global table, so the version can go back.
func judgeLabels(results []joinedMoment, orders []keyedMoment, versions map[string]int64) error {
	if len(results) != len(orders) {
		return fmt.Errorf("%d results of %d orders", len(results), len(orders))
	}
	for i, o := range orders {
		if r := results[i]; r.key != o.key || r.Left != o.ID || r.at != o.At || r.Right < 0 || r.Right > versions[labelOf(o.ID)] {
			return fmt.Errorf("result %d is %+v, want that of order %+v", i, r, o)
		}
	}
	return nil
}

// pairs judges a join of orders and payments. Each two of one key whose times are near each other
// meet exactly once. A join that is not patient may miss some, and no two meet twice. Where a side is
// outer, each of its records whose window has closed has met one, or has a result alone. A record that
// comes when its window is over is passed on at once, and can meet others later. So a record that
// meets some may be alone once, before it meets the first.
type pairs struct{ patient, left, right bool }

func (j pairs) judge(results []joinedMoment, orders, payments []keyedMoment) error {
	want := map[joinedMoment]bool{}
	alone := map[int64]joinedMoment{} // results of records that are alone, as far as the join has them
	now := int64(-1)
	if j.left {
		for _, o := range orders {
			alone[o.ID], now = joinedMoment{o.key, Joined{Left: o.ID}, o.At}, max(now, o.At)
		}
	}
	byKey := map[string][]keyedMoment{}
	for _, p := range payments {
		byKey[p.key] = append(byKey[p.key], p)
		if j.right {
			alone[p.ID] = joinedMoment{p.key, Joined{Right: p.ID}, p.At}
		}
	}
	for _, o := range orders {
		for _, p := range byKey[o.key] {
			if p.At >= o.At-joinBefore.Milliseconds() && p.At <= o.At+joinAfter.Milliseconds() {
				want[joinedMoment{o.key, Joined{o.ID, p.ID}, max(o.At, p.At)}] = true
			}
		}
	}
	begun := map[int64]bool{} // records that have met others in the results so far
	for i, r := range results {
		if r.Left != 0 && r.Right != 0 {
			if !want[r] {
				return fmt.Errorf("result %d is %+v: the records do not meet, or twice", i, r)
			}
			delete(want, r)
			begun[r.Left], begun[r.Right] = true, true
			continue
		}
		id := cmp.Or(r.Left, r.Right)
		if expected, ok := alone[id]; !ok || expected != r || begun[id] {
			return fmt.Errorf("result %d is %+v: the record is not alone, or twice", i, r)
		}
		delete(alone, id)
	}
	if missed := slices.Collect(maps.Keys(want)); j.patient && len(missed) > 0 {
		return fmt.Errorf("%d pairs have not met, such as %+v", len(missed), missed[0])
	}
	for id, r := range alone {
		if closed := r.at+joinBefore.Milliseconds()+joinAfter.Milliseconds()+joinGrace.Milliseconds() < now; closed && !begun[id] {
			return fmt.Errorf("%+v has met none, and has no result", r)
		}
	}
	return nil
}
