package main

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/processors/postgres/pginbox"
)

type inboxCommands struct {
	Clean inboxCleanCommand `cmd:"" help:"Remove marks that are old."`
}

type inboxCleanCommand struct {
	serviceArg
	Retention time.Duration `default:"4320h" placeholder:"TIME" help:"Remove marks that are older; default ${default}. An event that comes later has its effect again."`
	Archive   bool          `help:"Move the marks to onceward.inbox_archive."`
	Limit     int           `placeholder:"N" default:"100000" help:"Most marks to remove; default ${default}."`
}

// Help is for --help.
func (inboxCleanCommand) Help() string {
	return "Consumers can run meanwhile. The retention is that of the service, or more."
}

// Run is called by kong.
func (c *inboxCleanCommand) Run(p *process) error {
	switch {
	case c.Limit < 1:
		return usageError{fmt.Errorf("--limit: %d is no number of marks", c.Limit)}
	case c.Retention < time.Second:
		return usageError{fmt.Errorf("--retention: a second is the least, not %s", c.Retention)}
	}
	opts := []pginbox.Option{pginbox.Retention(c.Retention)}
	if c.Archive {
		opts = append(opts, pginbox.Archive())
	}
	b, err := pginbox.New(p.pool, c.Service, opts...)
	if err != nil {
		return err
	}
	n, err := b.Clean(p.ctx, c.Limit)
	fmt.Fprintf(p.out, "%d marks were removed\n", n)
	return err
}
