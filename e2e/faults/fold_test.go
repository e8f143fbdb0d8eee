package faults

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// keys is how many keys inputs have: three groups, each with keys in both partitions.
const keys = 9

// input is a record that was fed.
type input struct {
	id, key, value string
	partition      int32
}

// inputOf returns the input with a number. says stands in its value behind the id.
func inputOf(number int, says string) input {
	k := number % keys
	in := input{id: fmt.Sprintf("i%d", number), key: fmt.Sprintf("%c%d", 'a'+k/3, k%3), partition: int32(k % partitions)}
	in.value = strings.TrimSpace(in.id + " " + says)
	return in
}

// plain has an input say nothing, or has it be one of the poisoned.
func plain(number int) string {
	if number%11 == 10 {
		return poison
	}
	return ""
}

// bulky inputs are, with the outputs and the repartition records of a batch, several times what a
// round keeps back.
func bulky(number int) string { return strings.Repeat("x", 16<<10) + " " + plain(number) }

func poisonous(int) string { return poison }

func quiet(int) string { return silent }

func (in input) record(topic string) *kgo.Record {
	return &kgo.Record{Topic: topic, Partition: in.partition, Key: []byte(in.key), Value: []byte(in.value)}
}

// fold is what a correct application makes of inputs.
type fold struct {
	// out has the values for each key, in order.
	out map[string][]string
	// groups has for each group the inputs of each key, in order: keys of one group come from two
	// partitions and may meet anyhow.
	groups map[string]map[string][]string
	// dead has the keys and values of what is poisoned.
	dead   []string
	counts map[string]keyCount
}

func foldOf(inputs []input) fold {
	f := fold{out: map[string][]string{}, groups: map[string]map[string][]string{}, counts: map[string]keyCount{}}
	for _, in := range inputs {
		if isPoison(in.value) {
			f.dead = append(f.dead, in.key+" "+in.value)
			continue
		}
		if isSilent(in.value) {
			continue
		}
		t := keyCount{f.counts[in.key].Count + 1, in.id}
		f.counts[in.key] = t
		f.out[in.key] = append(f.out[in.key], strconv.FormatInt(t.Count, 10)+" "+in.value)
		g := groupOf(in.key)
		if f.groups[g] == nil {
			f.groups[g] = map[string][]string{}
		}
		f.groups[g][in.key] = append(f.groups[g][in.key], in.value)
	}
	return f
}

// outputs is how many records the three output topics have in the end.
func (f fold) outputs() int {
	n := len(f.dead)
	for _, t := range f.counts {
		n += 2 * int(t.Count)
	}
	return n
}

// topics are the committed records of the output topics.
type topics struct{ out, totals, dead [][]*kgo.Record }

// check compares what was written with the fold. It names the first difference of every key.
func (f fold) check(got topics, keyOf map[string]string) error {
	return errors.Join(f.checkOut(got.out), f.checkTotals(got.totals, keyOf), f.checkDead(got.dead))
}

func byKey(partitions [][]*kgo.Record) map[string][]string {
	values := map[string][]string{}
	for _, records := range partitions {
		for _, r := range records {
			values[string(r.Key)] = append(values[string(r.Key)], string(r.Value))
		}
	}
	return values
}

func (f fold) checkOut(partitions [][]*kgo.Record) error {
	var errs []error
	got := byKey(partitions)
	for _, key := range union(f.out, got) {
		if err := compare(f.out[key], got[key]); err != nil {
			errs = append(errs, fmt.Errorf("outputs of key %s: %w", key, err))
		}
	}
	return errors.Join(errs...)
}

// checkTotals wants the numbers 1, 2, 3, ..., and for each key of the group its inputs in order.
// keyOf leads from an input's value to its key.
func (f fold) checkTotals(partitions [][]*kgo.Record, keyOf map[string]string) error {
	var errs []error
	got := byKey(partitions)
	for _, group := range union(f.groups, got) {
		keys := map[string][]string{}
		for i, value := range got[group] {
			n, in, _ := strings.Cut(value, " ")
			if n != strconv.Itoa(i+1) {
				errs = append(errs, fmt.Errorf("group %s: record %d has the number %s", group, i+1, n))
				break
			}
			keys[keyOf[in]] = append(keys[keyOf[in]], in)
		}
		for _, key := range union(f.groups[group], keys) {
			if err := compare(f.groups[group][key], keys[key]); err != nil {
				errs = append(errs, fmt.Errorf("group %s: inputs of key %s: %w", group, key, err))
			}
		}
	}
	return errors.Join(errs...)
}

func (f fold) checkDead(partitions [][]*kgo.Record) error {
	var got []string
	for _, records := range partitions {
		for _, r := range records {
			got = append(got, string(r.Key)+" "+string(r.Value))
		}
	}
	want := slices.Sorted(slices.Values(f.dead))
	slices.Sort(got)
	if err := compare(want, got); err != nil {
		return fmt.Errorf("dead letters: %w", err)
	}
	return nil
}

// checkCounts compares what a store, or the changelog of it, holds for each key.
func (f fold) checkCounts(counts map[string]keyCount) error {
	var errs []error
	for _, key := range union(f.counts, counts) {
		if f.counts[key] != counts[key] {
			errs = append(errs, fmt.Errorf("the store has %+v for key %s, want %+v", counts[key], key, f.counts[key]))
		}
	}
	return errors.Join(errs...)
}

// checkState compares what the stores hold.
func (f fold) checkState(counts, groups map[string]keyCount) error {
	errs := []error{f.checkCounts(counts)}
	for _, group := range union(f.groups, groups) {
		want, last := int64(0), false
		for _, values := range f.groups[group] {
			want += int64(len(values))
			last = last || id(values[len(values)-1]) == groups[group].Last
		}
		if groups[group].Count != want || !last {
			errs = append(errs, fmt.Errorf("the store has %+v for group %s, want %d and the last input of one of its keys",
				groups[group], group, want))
		}
	}
	return errors.Join(errs...)
}

func compare(want, got []string) error {
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			return fmt.Errorf("%d of %d: the first that is missing is %.20q", len(got), len(want), want[i])
		case i >= len(want):
			return fmt.Errorf("%d instead of %d: the first too many is %.20q", len(got), len(want), got[i])
		case want[i] != got[i]:
			return fmt.Errorf("number %d is %.20q, want %.20q", i+1, got[i], want[i])
		}
	}
	return nil
}

func union[V, W any](a map[string]V, b map[string]W) []string {
	keys := slices.Collect(maps.Keys(a))
	keys = slices.AppendSeq(keys, maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}
