package pgrequests

import (
	"crypto/sha256"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/onceward/onceward/schemas"
)

// hashHTTP returns the hash of what a request asks for. It is stored: it changes together with its
// version, and then retries that arrive during the upgrade are conflicts.
func hashHTTP(r *http.Request, body []byte) [32]byte {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		media = r.Header.Get("Content-Type")
	}
	query := r.URL.RawQuery
	if q, err := url.ParseQuery(query); err == nil {
		query = q.Encode() // sorted by name
	}
	form, content := "bytes", sha256.Sum256(body)
	if media == "application/json" || strings.HasSuffix(media, "+json") {
		if canonical, err := schemas.HashJSON(body); err == nil { // a document without a canonical form is compared as it is
			form, content = "json", canonical
		}
	}
	h := sha256.New()
	for _, part := range []string{"onceward request 1", r.Method, r.URL.Path, query, media, form, string(content[:])} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return [32]byte(h.Sum(nil))
}
