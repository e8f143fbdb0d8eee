package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/onceward/onceward/processors/postgres/pgrequests"
)

type requestsCommands struct {
	List  requestsListCommand  `cmd:"" help:"List requests whose outcome is UNKNOWN."`
	Show  requestsShowCommand  `cmd:"" help:"Show a request."`
	End   requestsEndCommand   `cmd:"" help:"End a request whose outcome is UNKNOWN."`
	Clean requestsCleanCommand `cmd:"" help:"Remove answers and requests that are old."`
}

// serviceArg is the service of a store.
type serviceArg struct {
	Service string `arg:"" help:"Name of the service."`
}

// requestEntry is a request as JSON. Its fields are for programs and stay.
type requestEntry struct {
	Tenant         string `json:"tenant,omitempty"`
	Client         string `json:"client,omitempty"`
	Operation      string `json:"operation"`
	Resource       string `json:"resource,omitempty"`
	Key            string `json:"key"`
	Status         string `json:"status"`
	Attempt        int64  `json:"attempt"`
	External       bool   `json:"external"`
	Holder         string `json:"holder"`
	CreatedAt      string `json:"createdAt"`
	StartedAt      string `json:"startedAt"`
	LockedUntil    string `json:"lockedUntil,omitempty"`
	EndedAt        string `json:"endedAt,omitempty"`
	ResponseStatus int    `json:"responseStatus,omitempty"`
}

func requestEntryOf(e pgrequests.Entry) requestEntry {
	c := e.Claim.Scope
	return requestEntry{
		Tenant: c.Tenant, Client: c.Client, Operation: c.Operation, Resource: c.Resource, Key: c.Key, Status: string(e.Status),
		Attempt: e.Claim.Attempt, External: e.External, Holder: e.Holder, CreatedAt: moment(e.CreatedAt), StartedAt: moment(e.StartedAt),
		LockedUntil: moment(e.LockedUntil), EndedAt: moment(e.EndedAt), ResponseStatus: e.Response.Status,
	}
}

type requestsListCommand struct {
	serviceArg
	Limit int `placeholder:"N" default:"100" help:"Most requests to show; default ${default}."`
	outputFlag
}

// Help is for --help.
func (requestsListCommand) Help() string {
	return "An attempt may have had an external effect, and has not said so. Find out whether it has, and end the request: " +
		"see requests end. Its copies wait until then. The oldest attempts come first."
}

// Run is called by kong.
func (c *requestsListCommand) Run(p *process) error {
	if c.Limit < 1 {
		return usageError{fmt.Errorf("--limit: %d is no number of requests", c.Limit)}
	}
	s, err := pgrequests.New(p.pool, c.Service)
	if err != nil {
		return err
	}
	all, err := s.Unknown(p.ctx, c.Limit)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		for _, e := range all {
			if err := writeJSON(p.out, requestEntryOf(e)); err != nil {
				return err
			}
		}
		return nil
	}
	t := newTable(p.out, "STARTED", "TENANT", "CLIENT", "OPERATION", "RESOURCE", "KEY", "ATTEMPT", "HOLDER")
	for _, e := range all {
		c := e.Claim.Scope
		t.row(moment(e.StartedAt), c.Tenant, c.Client, c.Operation, c.Resource, c.Key, strconv.FormatInt(e.Claim.Attempt, 10), e.Holder)
	}
	return t.w.Flush()
}

type requestsShowCommand struct {
	serviceArg
	requestScope
	outputFlag
}

// Help is for --help.
func (requestsShowCommand) Help() string {
	return "Of the answer the status is shown. UNKNOWN is also a request with external effects whose lock has expired."
}

// Run is called by kong.
func (c *requestsShowCommand) Run(p *process) error {
	s, err := pgrequests.New(p.pool, c.Service)
	if err != nil {
		return err
	}
	e, err := find(p, s, c.scope())
	if err != nil {
		return err
	}
	shown := requestEntryOf(e)
	if c.Output == "json" {
		return writeJSON(p.out, shown)
	}
	status := ""
	if shown.ResponseStatus != 0 {
		status = strconv.Itoa(shown.ResponseStatus)
	}
	t := newTable(p.out, "key", shown.Key)
	for _, row := range [][2]string{
		{"tenant", shown.Tenant}, {"client", shown.Client}, {"operation", shown.Operation}, {"resource", shown.Resource}, {"status", shown.Status},
		{"attempt", strconv.FormatInt(shown.Attempt, 10)}, {"external", strconv.FormatBool(shown.External)}, {"holder", shown.Holder},
		{"created", shown.CreatedAt}, {"started", shown.StartedAt}, {"locked until", shown.LockedUntil}, {"ended", shown.EndedAt},
		{"response status", status},
	} {
		t.row(row[0], row[1])
	}
	return t.w.Flush()
}

type requestsCleanCommand struct {
	serviceArg
	AuditRetention time.Duration `default:"4320h" placeholder:"TIME" help:"Remove requests whose last attempt began longer ago; default ${default}. A copy that comes later has its effect again."`
	Limit          int           `placeholder:"N" default:"100000" help:"Most rows to change; default ${default}."`
}

// Help is for --help.
func (requestsCleanCommand) Help() string {
	return "An answer is removed when its time to live is over. A request with external effects whose lock has expired becomes UNKNOWN, and stays."
}

// Run is called by kong.
func (c *requestsCleanCommand) Run(p *process) error {
	switch {
	case c.Limit < 1:
		return usageError{fmt.Errorf("--limit: %d is no number of rows", c.Limit)}
	case c.AuditRetention < time.Second:
		return usageError{fmt.Errorf("--audit-retention: a second is the least, not %s", c.AuditRetention)}
	}
	s, err := pgrequests.New(p.pool, c.Service, pgrequests.AuditRetention(c.AuditRetention),
		pgrequests.TimeToLive(min(c.AuditRetention, pgrequests.DefaultTimeToLive))) // of new answers, which this process has none of
	if err != nil {
		return err
	}
	n, err := s.Clean(p.ctx, c.Limit)
	fmt.Fprintf(p.out, "%d rows were changed\n", n)
	return err
}
