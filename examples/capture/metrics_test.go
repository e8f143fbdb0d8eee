package capture

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"testing"
)

// counters are the metrics of a process that counts are compared with: outcomes by name, of all
// nodes, and the requests that it has read and that are committed.
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
	c.settle()
	return c
}

// settle puts together what depends on the moment: the two answers to who asks again, and claims
// that were given back and made anew.
func (c counters) settle() {
	for _, part := range []struct {
		of, into string
		sign     int
	}{{"replayed", "answered", 1}, {"in-progress", "answered", 1}, {"unused-claims", "claims", -1}} {
		if n, ok := c.outcomes[part.of]; ok {
			c.outcomes[part.into] += part.sign * n
			delete(c.outcomes, part.of)
		}
	}
}

// difference returns an error unless the metrics say this.
func (c counters) difference(outcomes map[string]int, records int) error {
	if c.records != records || !maps.Equal(c.outcomes, outcomes) {
		return fmt.Errorf("the metrics are\n%v of %d records, want\n%v of %d", c.outcomes, c.records, outcomes, records)
	}
	return nil
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
