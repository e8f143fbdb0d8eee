package admin

import (
	"strings"
	"testing"

	"github.com/onceward/onceward/e2e/virtual"
)

// TestWrite: the record is in the partition that was named, whatever its key, where the answer
// says; and nowhere where there is none.
func TestWrite(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		o := newHarness(t)
		for p := range int32(harnessPartitions) {
			for want := range int64(2) {
				if offset, err := o.client.Write(o.ctx, "in", p, []byte("k"), []byte("said")); err != nil || offset != want {
					t.Errorf("in partition %d it is at offset %d, %v, want %d", p, offset, err, want)
				}
			}
		}
		for topic, says := range map[string]string{"in": "topic in has no partition 2; it has 2 of them", "absent": "looking at absent: "} {
			if _, err := o.client.Write(o.ctx, topic, harnessPartitions, nil, nil); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", topic, err)
			}
		}
		records, err := o.client.Read(o.ctx, "in")
		if err != nil || len(records.Records) != 2*harnessPartitions {
			t.Fatalf("the topic has %+v, %v", records, err)
		}
		for _, r := range records.Records {
			if string(r.Key) != "k" || string(r.Value) != "said" {
				t.Errorf("partition %d has %q %q", r.Partition, r.Key, r.Value)
			}
		}
	})
}
