package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestDecisions shows what every error code of Kafka, and what is no code, means at every stage. A
// code that the client library learns of appears here as a difference, and is unknown until
// somebody has thought about it.
func TestDecisions(t *testing.T) {
	cases := map[string]error{
		"(success)": nil, "(deadline)": context.DeadlineExceeded, "(cancelled)": context.Canceled, "(client closed)": kgo.ErrClientClosed,
		"(connection closed)": io.EOF, "(anything else)": errors.New("?"), "(code 9999)": &kerr.Error{Message: "NEW", Code: 9999},
	}
	for code := int16(-1); code < 1000; code++ {
		var known *kerr.Error
		if errors.As(kerr.ErrorForCode(code), &known) && known.Code == code {
			cases[known.Message] = known
		}
	}
	if len(cases) < 100 {
		t.Fatalf("only %d cases: the list of codes was not found", len(cases))
	}
	stages := map[string]Stage{Producing.String(): Producing, Committing.String(): Committing, Ending.String(): Ending}
	datadriven.RunTest(t, "testdata/decisions", func(t *testing.T, d *datadriven.TestData) string {
		stage, ok := stages[d.Cmd]
		if !ok {
			t.Fatalf("there is no stage %s", d.Cmd)
		}
		groups := map[string][]string{}
		for name, err := range cases {
			if err != nil {
				err = fmt.Errorf("wrapped: %w", err)
			}
			outcome, scope := Decide(stage, err), ScopeRound
			if outcome == Refused {
				scope = ScopeOf(err) // of another outcome it says nothing
			}
			if (outcome == Accepted) != (err == nil) {
				t.Errorf("%s at %s is %s", name, stage, outcome)
			}
			group := outcome.String() + ", " + scope.String()
			groups[group] = append(groups[group], name)
		}
		var out strings.Builder
		var names []string
		for group := range groups {
			names = append(names, group)
		}
		slices.Sort(names)
		for _, group := range names {
			slices.Sort(groups[group])
			fmt.Fprintf(&out, "%s:\n", group)
			for _, name := range groups[group] {
				fmt.Fprintf(&out, "  %s\n", name)
			}
		}
		return out.String()
	})
}
