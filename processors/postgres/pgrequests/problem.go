package pgrequests

import (
	"encoding/json"
	"net/http"
)

// The types of the problems that the handler answers with (RFC 9457). They lead to these lines.
const (
	// KeyMissing: the request has no key.
	KeyMissing = problems + "KeyMissing"
	// KeyMalformed: the key is not what the header has to be.
	KeyMalformed = problems + "KeyMalformed"
	// ScopeUnusable: what names the request cannot be stored: a part of it is too long, or is not
	// valid UTF-8 without zero bytes. The detail says which part.
	ScopeUnusable = problems + "ScopeUnusable"
	// KeyReused: the key was used for another request. Use a new key for a new request.
	KeyReused = problems + "KeyReused"
	// KeyExpired: the key was used, and there is no answer: it is not stored any more, or never
	// was. The operation has been done, or has failed for good.
	KeyExpired = problems + "KeyExpired"
	// RequestInProgress: a copy of the request is at work. Send the request again later.
	RequestInProgress = problems + "RequestInProgress"
	// OutcomeUnknown: it is not known yet whether the operation was done. Send the request again
	// later.
	OutcomeUnknown = problems + "OutcomeUnknown"
	// BodyTooLarge: the body is longer than the service accepts.
	BodyTooLarge = problems + "BodyTooLarge"
	// BodyUnreadable: the body did not arrive as a whole.
	BodyUnreadable = problems + "BodyUnreadable"
	// Failed: the operation was not done. With status 503, send the request again later.
	Failed = problems + "Failed"
)

const problems = "https://pkg.go.dev/github.com/onceward/onceward/processors/postgres/pgrequests#"

// problem returns an answer of the handler itself. The detail is for people.
func problem(status int, kind, detail string) Response {
	body, err := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{kind, http.StatusText(status), status, detail})
	if err != nil {
		panic("pgrequests: a problem has no JSON: " + err.Error()) // strings and a number always have
	}
	return Response{Status: status, Header: http.Header{"Content-Type": {"application/problem+json"}, "Cache-Control": {"no-store"}}, Body: body}
}
