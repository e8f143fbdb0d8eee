package postgres_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/postgres/pginbox"
	"github.com/onceward/onceward/processors/postgres/pgoutbox"
	"github.com/onceward/onceward/processors/postgres/pgqueue"
	"github.com/onceward/onceward/processors/postgres/pgrequests"
	"github.com/onceward/onceward/processors/postgres/pgsink"
)

// described is a registerer that keeps the descriptions of what is registered, also of vectors
// without values.
type described struct{ lines []string }

var description = regexp.MustCompile(`fqName: "([^"]*)", help: "([^"]*)",.* constLabels: {}, variableLabels: {([^}]*)}`)

func (d *described) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc, 10)
	c.Describe(descs)
	close(descs)
	for desc := range descs {
		m := description.FindStringSubmatch(desc.String())
		if m == nil {
			return fmt.Errorf("the description %s does not parse", desc)
		}
		d.lines = append(d.lines, fmt.Sprintf("| `%s` | %s | %s |\n", m[1], strings.ReplaceAll(m[3], ",", ", "), m[2]))
	}
	return nil
}

func (d *described) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := d.Register(c); err != nil {
			panic(err)
		}
	}
}

func (d *described) Unregister(prometheus.Collector) bool { return false }

const (
	metricsFile  = "../../docs/reference/postgres-metrics.md"
	metricsTable = "| name | labels | what it is |\n|---|---|---|\n"
)

// TestMetricsReference: the reference has every metric of the packages, and nothing else.
// UPDATE_METRICS=1 writes it.
func TestMetricsReference(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), "postgres:///x?pool_max_conns=10")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	d := &described{}
	_, inbox := pginbox.New(pool, "service", pginbox.Metrics(d))
	_, requests := pgrequests.New(pool, "service", pgrequests.Metrics(d))
	_, queue := pgqueue.New(pgqueue.Config{Name: "queue", Pool: pool, Metrics: d})
	_, outbox := pgoutbox.New(pgoutbox.Config{Name: "outbox", Pool: pool, Metrics: d})
	_, sink := pgsink.New(pgsink.Config{
		Name: "sink", Pool: pool, Topics: []string{"in"}, Client: []kgo.Opt{kgo.SeedBrokers("localhost")}, Metrics: d,
		Apply: func(context.Context, pgx.Tx, []*kgo.Record) error { return nil },
	})
	for _, err := range []error{inbox, requests, queue, outbox, sink} {
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(d.lines)
	reference, err := os.ReadFile(metricsFile)
	if err != nil {
		t.Fatal(err)
	}
	before, after, ok := strings.Cut(string(reference), metricsTable)
	if !ok {
		t.Fatal("the reference has no table")
	}
	want := strings.Join(d.lines, "")
	if os.Getenv("UPDATE_METRICS") == "1" {
		if err := os.WriteFile(metricsFile, []byte(before+metricsTable+want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if after != want {
		t.Errorf("the table of the reference is\n%s\nwant\n%s\nUPDATE_METRICS=1 writes it", after, want)
	}
}
