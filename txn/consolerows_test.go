//go:build onceward_failpoints

package txn_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/onceward/onceward/txn"
)

// TestConsoleShowsLargeNumbers: the console gets the values of rows as texts, which a browser does
// not round.
func TestConsoleShowsLargeNumbers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := pairOf(t, func(_ string, cfg *txn.Config) { cfg.Console.Contents = true })
		s.feedAll()
		s.await("the counts", func() bool { return s.atEnd(1, "one", "two") })
		status, text := get(s.apps["one"], "/console/rows/counts?key=p0&partition=0")
		if status != http.StatusOK || !strings.Contains(text, fmt.Sprintf(`"value":%q`, "1")) {
			t.Errorf("the console answers %d %s", status, text)
		}
	})
}
