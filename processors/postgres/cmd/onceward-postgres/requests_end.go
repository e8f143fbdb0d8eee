package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/processors/postgres/pgrequests"
)

// requestScope is the scope of a request.
type requestScope struct {
	Key       string `arg:"" help:"Key of the request, without quotation marks."`
	Operation string `required:"" placeholder:"NAME" help:"Operation of the request, such as 'POST /payments'."`
	Tenant    string `placeholder:"NAME" help:"Tenant of the request."`
	Client    string `placeholder:"NAME" help:"Client of the request."`
	Resource  string `placeholder:"NAME" help:"Resource of the request."`
}

func (r requestScope) scope() pgrequests.Scope {
	return pgrequests.Scope{Tenant: r.Tenant, Client: r.Client, Operation: r.Operation, Resource: r.Resource, Key: r.Key}
}

// find returns the request of a scope, or says that there is none.
func find(p *process, s *pgrequests.Store, scope pgrequests.Scope) (pgrequests.Entry, error) {
	e, found, err := s.Find(p.ctx, scope)
	if err == nil && !found {
		err = errors.New("there is no such request; tenant, client, operation, resource and key have to be those of the request")
	}
	return e, err
}

// The outcomes that an operator can find out.
const (
	asCompleted = "completed"
	asRetryable = "failed-retryable"
	asTerminal  = "failed-terminal"
)

type requestsEndCommand struct {
	serviceArg
	requestScope
	As     string   `required:"" enum:"completed,failed-retryable,failed-terminal" placeholder:"OUTCOME" help:"completed, failed-retryable or failed-terminal."`
	Status int      `placeholder:"N" help:"Status of the answer, such as 201."`
	Header []string `sep:"none" placeholder:"LINE" help:"Header of the answer, such as 'Content-Type: application/json'; may be repeated."`
	Body   string   `placeholder:"FILE" help:"File with the body of the answer."`
}

// Help is for --help.
func (requestsEndCommand) Help() string {
	return "Find out before whether the external effect has happened. If it has, --as completed stores the answer that copies get, with --status, " +
		"--header and --body. If it has not, --as failed-retryable lets the next copy start, and --as failed-terminal stores a final answer. " +
		"Only a request whose outcome is UNKNOWN is ended."
}

// Run is called by kong.
func (c *requestsEndCommand) Run(p *process) error {
	s, err := pgrequests.New(p.pool, c.Service)
	if err != nil {
		return err
	}
	answer, err := c.answer()
	if err != nil {
		return err
	}
	e, err := find(p, s, c.scope())
	if err != nil {
		return err
	}
	if e.Status != pgrequests.StatusUnknown {
		return fmt.Errorf("the request is %s: only one that is UNKNOWN is ended", e.Status)
	}
	err = pgx.BeginFunc(p.ctx, p.pool, func(tx pgx.Tx) error {
		switch c.As {
		case asCompleted:
			return s.Complete(p.ctx, tx, e.Claim, answer)
		case asTerminal:
			return s.Fail(p.ctx, tx, e.Claim, pgrequests.StatusFailedTerminal, answer)
		}
		return s.Fail(p.ctx, tx, e.Claim, pgrequests.StatusFailedRetryable, answer)
	})
	if errors.Is(err, pgrequests.ErrFenced) {
		return errors.New("the request was ended, or has a later attempt, since it was read: nothing was changed; see `requests show`")
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(p.out, "the request %s was ended as %s\n", oneLine(c.Key), c.As)
	return nil
}

// answer is what copies get.
func (c *requestsEndCommand) answer() (pgrequests.Response, error) {
	r := pgrequests.Response{Status: c.Status, Header: http.Header{}}
	if c.As == asRetryable {
		if len(c.Header) > 0 || c.Body != "" {
			return r, usageError{errors.New("--header, --body: a request that may be tried again has no answer to store")}
		}
		return r, nil
	}
	if c.Status < 200 || c.Status > 599 {
		return r, usageError{fmt.Errorf("--status: an answer has a status from 200 to 599, not %d", c.Status)}
	}
	for _, line := range c.Header {
		name, value, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return r, usageError{errors.New("--header: a header has a name, a colon and a value")}
		}
		http.Header(r.Header).Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	if c.Body != "" {
		body, err := os.ReadFile(c.Body)
		if err != nil {
			return r, fmt.Errorf("--body: %w", err)
		}
		r.Body = body
	}
	return r, nil
}
