package capture

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/schemas"
)

// headerKey has the idempotency key of a call.
const headerKey = "Idempotency-Key"

// provider is the gateway as the application sees it. It is safe for concurrent use.
type provider struct {
	url    string
	client *http.Client
}

// connectionsMax is how many connections are kept: as many as there may be calls at once.
const connectionsMax = 64

func newProvider(url string) provider {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = connectionsMax
	return provider{url, &http.Client{Transport: transport}}
}

const (
	errBusy     = schemas.Reason("the gateway has no time")
	errDeclined = schemas.Reason("the gateway has declined")
	errAnswer   = schemas.Reason("the gateway has given an answer that is none of its")
	errDown     = schemas.Reason("the gateway cannot look it up")
)

// capture makes a call. Whether it had an effect is only known if there is an answer, and that is
// one which is agreed with the gateway.
func (p provider) capture(ctx context.Context, call effect.Call) ([]byte, error) {
	body, status, err := p.do(ctx, http.MethodPost, call)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusOK:
		return body, nil
	case status == http.StatusTooManyRequests:
		return nil, effect.Retryable(errBusy)
	case status == http.StatusPaymentRequired:
		return nil, effect.Terminal(errDeclined)
	}
	return nil, errAnswer
}

// find asks what has become of the calls with a key.
func (p provider) find(ctx context.Context, call effect.Call) (effect.Answer, error) {
	body, status, err := p.do(ctx, http.MethodGet, call)
	switch {
	case err != nil:
		return effect.Answer{}, err
	case status == http.StatusOK:
		return effect.Answer{Status: effect.Completed, Response: body}, nil
	case status == http.StatusNotFound:
		return effect.Answer{Status: effect.FailedRetryable}, nil
	case status == http.StatusAccepted:
		return effect.Answer{Status: effect.Unknown}, nil
	}
	return effect.Answer{}, errDown
}

func (p provider) do(ctx context.Context, method string, call effect.Call) (body []byte, status int, err error) {
	r, err := http.NewRequestWithContext(ctx, method, p.url, bytes.NewReader(call.Payload))
	if err != nil {
		return nil, 0, err
	}
	// Go's client sends a request with this header again by itself when a connection breaks; that
	// would be a call of which the ledger knows nothing.
	r.GetBody = nil
	r.Header.Set(headerKey, call.IdempotencyKey)
	resp, err := p.client.Do(r)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return body, resp.StatusCode, err
}
