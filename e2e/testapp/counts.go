package testapp

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
)

// LastCounts returns the last count of every key. The records are those of an application that
// counts the records of each key and writes every count. It fails the test unless the counts of a
// key go up by one from 1.
func LastCounts(t testing.TB, records []*kgo.Record) map[string]int64 {
	t.Helper()
	last := map[string]int64{}
	for _, r := range records {
		n, err := schemas.Int64().Decode(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		if n != last[string(r.Key)]+1 {
			t.Fatalf("key %s: count %d follows %d", r.Key, n, last[string(r.Key)])
		}
		last[string(r.Key)] = n
	}
	return last
}
