package pgrequests

import (
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestHashGolden: the hash of a request is stored, so it never changes without its version.
func TestHashGolden(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/payments?b=2&a=1", nil)
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	for body, want := range map[string]string{
		`{"cents": 1250}`: "d019e55f80d829e60e6c2c5be601e6fcb8618547d3e95116d0e9987cf5a96db3",
		`not JSON`:        "7a6d9883257e0f182737a225d34da35ed9cc110e7c41cea2016c30c8f6e0893b",
	} {
		hash := hashHTTP(r, []byte(body))
		if got := hex.EncodeToString(hash[:]); got != want {
			t.Errorf("%s: %s", body, got)
		}
	}
}
