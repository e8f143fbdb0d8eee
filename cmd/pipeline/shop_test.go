package pipeline_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/cmd/pipeline"
	"github.com/onceward/onceward/topology/topologytest"
)

// The pipeline of the guide is the one that this test runs.
func TestGuideHasTheShop(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guides/pipelines.md")
	if err != nil {
		t.Fatal(err)
	}
	shop, err := os.ReadFile("testdata/shop.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(guide), "```yaml\n"+string(shop)+"```\n") {
		t.Error("docs/guides/pipelines.md does not have testdata/shop.yaml")
	}
}

func TestShop(t *testing.T) {
	top, err := pipeline.Load("testdata/shop.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d, err := topologytest.New(top)
	if err != nil {
		t.Fatal(err)
	}
	morning := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	for _, r := range []struct {
		after             time.Duration
		topic, key, value string
	}{
		{0, "product-list", "tea", `{"cents": 300}`},
		{0, "customer-changes", "ann", `{"city": "Bern"}`},
		{0, "shipment-changes", "s1", `{"customer": "ann"}`},
		{time.Second, "orders", "o1", `{"customer": "ann", "product": "tea", "pieces": 2}`},
		{2 * time.Second, "orders", "o2", `{"customer": "ann", "product": "tea", "pieces": 1}`},
		{3 * time.Second, "orders", "o3", `{"customer": "ann", "product": "ink", "pieces": 1}`},
		{time.Minute, "payments", "o1", `{}`},
		{20 * time.Minute, "orders", "o4", `{"customer": "ann", "product": "tea", "pieces": 1}`},
		{20 * time.Minute, "shipment-changes", "s2", `{"customer": "ann"}`},
		{21 * time.Minute, "shipment-changes", "s3", `{"customer": "ann"}`},
	} {
		if err := d.PipeRaw(r.topic, []byte(r.key), []byte(r.value), topologytest.At(morning.Add(r.after))); err != nil {
			t.Fatalf("%s %s: %v", r.topic, r.key, err)
		}
	}
	for topic, want := range map[string][]string{
		"unpaid-orders":    {`o2 {"cents":300,"paid":false}`},
		"orders-with-city": {`ann {"cents":600,"city":"Bern"}`, `ann {"cents":300,"city":"Bern"}`, `ann {"cents":300,"city":"Bern"}`},
		"spent-per-minute": {`ann@2026-01-31T08:00:00.000Z/2026-01-31T08:01:00.000Z ` +
			`{"key":"ann","start":"2026-01-31T08:00:00Z","end":"2026-01-31T08:01:00Z","value":{"cents":900}}`},
		"shipments-per-city": {`Bern {"count":2}`},
		"shop-dead":          nil,
	} {
		records, err := d.OutputRaw(topic)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range records {
			got = append(got, string(r.Key)+" "+string(r.Value))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", topic, got, want)
		}
	}
}
