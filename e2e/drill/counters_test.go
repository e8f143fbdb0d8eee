package drill_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"testing"
)

// counters are the metrics of a process that counts are compared with: outcomes by name, of all nodes, and the records of
// the topic that are committed.
type counters struct {
	outcomes map[string]int
	records  int
}

var (
	outcomeLine = regexp.MustCompile(`^onceward_node_outcomes_total\{.*outcome="([^"]+)".*\} (\S+)$`)
	recordsLine = regexp.MustCompile(`^onceward_records_committed_total\{.*topic="([^"]+)"\} (\S+)$`)
)

// scrape reads the metrics of a process that is there.
func scrape(t *testing.T, socket, topic string) counters {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	page, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	c := counters{outcomes: map[string]int{}}
	lines := bufio.NewScanner(page.Body)
	for lines.Scan() {
		if m := outcomeLine.FindStringSubmatch(lines.Text()); m != nil {
			c.outcomes[m[1]] += number(t, m[2])
		}
		if m := recordsLine.FindStringSubmatch(lines.Text()); m != nil && m[1] == topic {
			c.records += number(t, m[2])
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return c
}

// number reads a count; a large one may be written with an exponent.
func number(t *testing.T, text string) int {
	t.Helper()
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return int(f)
}
