package faults

import (
	"fmt"
	"maps"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
)

// keys is how many keys the input has. Record n of the input has key n mod keys and the value n.
const keys = 10

func keyOf(n int) string { return fmt.Sprintf("k%d", n%keys) }

// counted is what the topology makes of the i-th record of a key.
func counted(count int64, value string) string { return fmt.Sprintf("%d:%s", count, value) }

// fold is the state that n records of input come to.
func fold(n int) map[string]int64 {
	counts := map[string]int64{}
	for i := range n {
		counts[keyOf(i)]++
	}
	return counts
}

// exactlyOnce says what is wrong with the committed output for n records of input: of each key, the records must be those of the input,
// each once, in order, with the counts 1, 2, 3 and so on.
func exactlyOnce(n int, outputs []*kgo.Record) error {
	next := map[string]int{}
	for i := range keys {
		next[keyOf(i)] = i
	}
	for _, r := range outputs {
		key := string(r.Key)
		at, ok := next[key]
		if !ok {
			return fmt.Errorf("%s[%d] offset %d: there is no key %s", r.Topic, r.Partition, r.Offset, key)
		}
		if want := counted(int64(at/keys)+1, fmt.Sprint(at)); string(r.Value) != want {
			return fmt.Errorf("%s[%d] offset %d, key %s: the record is %s, want %s", r.Topic, r.Partition, r.Offset, key, r.Value, want)
		}
		next[key] += keys
	}
	if len(outputs) != n {
		return fmt.Errorf("%d records of output, want %d", len(outputs), n)
	}
	return nil
}

// folded returns the last value of each key of a changelog.
func folded(changelog []*kgo.Record) (map[string]int64, error) {
	counts := map[string]int64{}
	for _, r := range changelog {
		n, err := schemas.Int64().Decode(r.Value)
		if err != nil {
			return nil, fmt.Errorf("%s[%d] offset %d: %w", r.Topic, r.Partition, r.Offset, err)
		}
		counts[string(r.Key)] = n
	}
	return counts, nil
}

// TestChecks: the checks see a lost, a repeated, a swapped and a foreign record, and a state that is off by one.
func TestChecks(t *testing.T) {
	const n = 3 * keys
	good := func() (out []*kgo.Record) {
		for i := range n {
			out = append(out, &kgo.Record{Key: []byte(keyOf(i)), Value: []byte(counted(int64(i/keys)+1, fmt.Sprint(i)))})
		}
		return out
	}
	if err := exactlyOnce(n, good()); err != nil {
		t.Fatal(err)
	}
	for name, broken := range map[string][]*kgo.Record{
		"lost at the end": good()[:n-1],
		"lost inside":     append(good()[:5], good()[6:]...),
		"repeated":        append(good(), good()[n-1]),
		"swapped":         append([]*kgo.Record{good()[keys], good()[0]}, append(good()[1:keys], good()[keys+1:]...)...),
		"foreign":         append(good()[:n-1], &kgo.Record{Key: []byte("other"), Value: []byte("1:1")}),
		"counted twice":   append(good()[:n-1], &kgo.Record{Key: []byte(keyOf(n - 1)), Value: []byte(counted(4, fmt.Sprint(n-1)))}),
	} {
		if exactlyOnce(n, broken) == nil {
			t.Errorf("%s: the check saw nothing", name)
		}
	}
	if maps.Equal(fold(n), fold(n+1)) {
		t.Error("one record more makes no difference to the fold")
	}
}
