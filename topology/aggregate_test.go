package topology_test

import (
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// TestCount: every record is a change, with the largest time so far.
func TestCount(t *testing.T) {
	k := tableTask(t, func(b *topology.Builder) {
		counts := topology.Count(topology.From(b, leftTopic), countTable)
		counts.Into(countTopic)
		showChanges(counts)
	})
	wantLines(t, k.script("left 5 a x", "left 3 a y", "left 9 a z", "left 4 b x"),
		"a=1@5 a=->1@5", "a=2@5 a=1>2@5", "a=3@9 a=2>3@9", "b=1@4 b=->1@4")
}

// TestNullsAreLeftOut: a null key and, of aggregations, a null value.
func TestNullsAreLeftOut(t *testing.T) {
	topic := topology.Topic("left", topology.Nullable(schemas.String()), topology.Nullable(schemas.String()))
	k := tableTask(t, func(b *topology.Builder) {
		keyed := topology.MapValues(topology.From(b, topic), "values", func(v textOpt) (textOpt, error) {
			return v, nil
		})
		store := topology.TimestampedStore("null-count", optionText{}, schemas.Int64())
		topology.MapValues(topology.Count(keyed, store).Stream(), "text",
			func(v topology.Option[int64]) (textOpt, error) {
				return topology.Some(show(v)), nil
			}).
			Into(topology.Topic("result", topology.Nullable(schemas.String()), topology.Nullable(schemas.String())))
	})
	wantLines(t, k.script("left 1 a x", "left 2 a -", "left 3 - x", "left 4 a y"), "a=1@1", "", "", "a=2@4")
	got := countsOf(k.send("left", 5, "-", "-")) + " " + countsOf(k.send("left", 5, "a", "-"))
	if got != "null-count.null-key=1 null-count.null-value=1" {
		t.Errorf("counted are %q", got)
	}
}

// optionText is a codec of options for stores, which have no nulls.
type optionText struct{}

func (optionText) Name() string { return "option" }
func (optionText) Append(dst []byte, v textOpt) ([]byte, error) {
	return schemas.String().Append(dst, v.Or(""))
}
func (optionText) Decode(b []byte) (textOpt, error) {
	s, err := schemas.String().Decode(b)
	return topology.Some(s), err
}

// TestReduce: the first value stands for itself, and after a removal the next one does again.
func TestReduce(t *testing.T) {
	k := tableTask(t, func(b *topology.Builder) {
		reduced := topology.Reduce(topology.From(b, leftTopic), leftTable, func(sofar string, r word) (string, error) {
			if r.Value == "remove" {
				return "", topology.ErrRemove
			}
			return sofar + r.Value, nil
		})
		reduced.Into(resultTopic)
		showChanges(reduced)
	})
	wantLines(t, k.script("left 5 a x", "left 3 a y", "left 9 a remove", "left 4 a z"),
		"a=x@5 a=->x@5", "a=xy@5 a=x>xy@5", "a=-@9 a=xy>-@9", "a=z@4 a=->z@4")
}

// TestAggregate: initial is asked for each new entry, an error fails the record, and ErrRemove
// where there is no entry is a change too.
func TestAggregate(t *testing.T) {
	initials := 0
	k := tableTask(t, func(b *topology.Builder) {
		topology.Aggregate(topology.From(b, leftTopic), leftTable,
			func() string {
				initials++
				return "^"
			},
			func(sofar string, r word) (string, error) {
				switch r.Value {
				case "remove":
					return sofar, topology.ErrRemove
				case "fail":
					return "", topology.Fail(topology.Validation, schemas.Reason("asked to"))
				}
				return sofar + r.Value, nil
			}).Into(resultTopic)
	})
	wantLines(t, k.script("left 1 a x", "left 2 a y", "left 3 a remove", "left 4 a remove", "left 5 a z"),
		"a=^x@1", "a=^xy@2", "a=-@3", "a=-@4", "a=^z@5")
	if initials != 3 {
		t.Errorf("initial was called %d times, want 3", initials)
	}
	if v := want(t, k.send("left", 6, "a", "fail"), topology.DeadLetter); v.Failure.Node != "left-table" {
		t.Errorf("node %s has failed", v.Failure.Node)
	}
	wantLines(t, k.script("left 7 a w"), "a=^zw@7")
}

// TestOldAggregateIsItsOwn: fold may change what it gets, and the change still has the value
// before.
func TestOldAggregateIsItsOwn(t *testing.T) {
	set := topology.TimestampedStore("sets", schemas.String(), schemas.JSON[map[string]int]())
	k := tableTask(t, func(b *topology.Builder) {
		sets := topology.Aggregate(topology.From(b, leftTopic), set, func() map[string]int { return map[string]int{} },
			func(sofar map[string]int, r word) (map[string]int, error) {
				sofar[r.Value]++
				return sofar, nil
			})
		showChanges(sets)
	})
	wantLines(t, k.script("left 1 a x", "left 2 a x", "left 3 a y"),
		"a=->map[x:1]@1", "a=map[x:1]>map[x:2]@2", "a=map[x:2]>map[x:2 y:1]@3")
}

// groups are the aggregations of TestGroups: the values of the left table are "<group> <value>".
func splitGroup(_, v string) (string, string, error) {
	group, value, _ := strings.Cut(v, ":")
	return group, value, nil
}

// TestGroupTable drives the aggregations of a table through its repartition topic.
func TestGroupTable(t *testing.T) {
	d := newDriven(t, func(b *topology.Builder) {
		group := topology.GroupTable(topology.TableFrom(b, leftTopic, leftTable), "groups", schemas.String(), schemas.String(),
			splitGroup)
		topology.CountTable(group, countTable).Into(countTopic)
		list := topology.TimestampedStore("list", schemas.String(), schemas.String())
		topology.ReduceTable(group, list,
			func(sofar, _, v string) (string, error) { return sofar + v, nil },
			func(sofar, _, v string) (string, error) {
				if sofar == v {
					return "", topology.ErrRemove
				}
				return strings.Replace(sofar, v, "", 1), nil
			}).Into(resultTopic)
	})
	d.pipe("left", 5, "a", "g:x")
	d.want("counted", "g=1@5")
	d.want("result", "g=x@5")
	d.pipe("left", 3, "b", "g:y")
	d.want("counted", "g=2@5")
	d.want("result", "g=xy@5")
	d.pipe("left", 7, "a", "g:z") // stays in the group: one change, off and on
	d.want("counted", "g=2@7")
	d.want("result", "g=yz@7")
	d.pipe("left", 6, "b", "h:y") // moves: off first
	d.want("counted", "g=1@7", "h=1@6")
	d.want("result", "g=z@7", "h=y@6")
	d.pipe("left", 9, "a", "-")
	d.want("counted", "g=0@9")
	d.want("result", "g=-@9")
	d.pipe("left", 10, "a", "-") // neither old nor new: nothing goes on
	d.want("counted")
	d.want("result")
	d.pipe("left", 11, "a", "g:w")
	d.want("counted", "g=1@11")
	d.want("result", "g=w@11")
}

// TestAggregateTable: an entry that leaves a group of which there is no aggregate changes nothing,
// and passes on that there is none.
func TestAggregateTable(t *testing.T) {
	sum := topology.TimestampedStore("sum", schemas.String(), schemas.String())
	d := newDriven(t, func(b *topology.Builder) {
		group := topology.GroupTable(topology.TableFrom(b, leftTopic, leftTable), "groups", schemas.String(), schemas.String(),
			splitGroup)
		topology.AggregateTable(group, sum, func() string { return "^" },
			func(sofar, _, v string) (string, error) {
				if v == "drop" {
					return "", topology.ErrRemove
				}
				return sofar + "+" + v, nil
			},
			func(sofar, _, v string) (string, error) { return sofar + "-" + v, nil }).Into(resultTopic)
	})
	d.pipe("left", 1, "a", "g:x")
	d.pipe("left", 2, "b", "g:drop")
	d.pipe("left", 3, "a", "h:y")
	d.pipe("left", 4, "b", "g:z")
	d.want("result", "g=^+x@1", "g=-@2", "g=-@3", "h=^+y@3", "g=^+z@4")
}

// TestGroupNulls: a key or value that is null leaves the entry out.
func TestGroupNulls(t *testing.T) {
	raw := topology.TimestampedStore("raw", schemas.Bytes(), schemas.Int64())
	d := newDriven(t, func(b *topology.Builder) {
		group := topology.GroupTable(topology.TableFrom(b, leftTopic, leftTable), "groups", schemas.Bytes(), schemas.Bytes(),
			func(_, v string) (key, value []byte, err error) {
				if strings.Contains(v, "k") {
					key = []byte("g")
				}
				if strings.Contains(v, "v") {
					value = []byte("v")
				}
				return key, value, nil
			})
		topology.CountTable(group, raw).Into(topology.Topic("counted", schemas.Bytes(), schemas.Int64()))
	})
	for i, v := range []string{"kv", "k", "kv", "v", "kv", ""} {
		d.pipe("left", int64(i), "a", v)
	}
	d.want("counted", "g=1@0", "g=0@1", "g=1@2", "g=0@3", "g=1@4", "g=0@5")
}
