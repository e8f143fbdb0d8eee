package txn

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/onceward/onceward/txn/internal/queries"
)

// Client queries an application from another program: any instance answers whose server has
// [App.QueryHandler]. It may be used from any goroutine.
type Client struct {
	base *url.URL
	http *http.Client
}

// NewClient returns a client of a handler at a URL. httpClient carries authentication and TLS, and
// nil is http.DefaultClient. Its Timeout, if it has one, bounds the life of each view. A view is
// one request whose two bodies are open at the same time. A proxy in between must not wait for the
// end of the first one.
func NewClient(handler string, httpClient *http.Client) (*Client, error) {
	base, err := url.Parse(handler)
	if err == nil && (base.Scheme != "http" && base.Scheme != "https" || base.Host == "") {
		err = fmt.Errorf("%q is no URL of an HTTP server", handler)
	}
	if err != nil {
		return nil, fmt.Errorf("query client: %w", err)
	}
	if httpClient == nil {
		httpClient = http.DefaultClient
	}
	return &Client{base: base, http: httpClient}, nil
}

// query is part of Queryable.
func (c *Client) query(ctx context.Context, r queries.Request) (served, error) {
	at := c.base.JoinPath(r.Store)
	client := queries.Client{
		HTTP: c.http, URL: at.String(), Expect: true, Failed: func(err error) error { return answered(ctx, at.Redacted(), err) },
	}
	unknown := func(queries.Bound) bool { return false } // the handler has said what the task reads
	return openAt(ctx, client, r, unknown)
}
