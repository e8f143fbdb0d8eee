package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/onceward/onceward/txn/admin"
)

// stateExportCommand writes all rows of a store to a file. The file is there when it is complete.
type stateExportCommand struct {
	Store string `arg:"" placeholder:"STORE" help:"The store."`
	stateDirectory
	Encoding   string `enum:"auto,text,hex,base64" default:"auto" placeholder:"ENCODING" env:"ONCEWARD_ENCODING" help:"How rows are written: as the store's codecs read them where the pipeline is named, otherwise as text, or base64 where it is none; or text, hex or base64."`
	OutputFile string `required:"" placeholder:"FILE" help:"File to write; one that is there is replaced when the new one is complete."`
	Partition  *int32 `placeholder:"N" help:"Partition to write; default is every one that the instance has."`
	Stale      bool   `help:"Read also what may be behind: while a task is restored, has stopped, was lost, or a commit is in doubt."`
}

// endLine is the last line of an export.
type endLine struct {
	Type string `json:"type"` // end
	Rows int64  `json:"rows"`
}

func (c *stateExportCommand) Run(p *process) (err error) {
	// A signal ends the export, and the half of a file with it.
	ctx, release := untilSignal(p.ctx, slog.New(slog.DiscardHandler))
	defer release()
	s, err := c.open(ctx, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	here, err := s.here(ctx, c.Store, c.Partition)
	if err != nil {
		return err
	}
	rows, err := c.write(ctx, s, here)
	if err != nil {
		return explainStale(err, c.Stale)
	}
	_, err = fmt.Fprintf(p.out, "%d rows of store %s, partition %s, are in %s\n", rows, c.Store, numbers(here.partitions), c.OutputFile)
	return err
}

// write writes beside the file, and renames when all of it is on the disk.
func (c *stateExportCommand) write(ctx context.Context, s opened, here place) (int64, error) {
	f, err := os.CreateTemp(filepath.Dir(c.OutputFile), "."+filepath.Base(c.OutputFile)+".*.partial")
	if err != nil {
		return 0, usage("--output-file: %w", err)
	}
	rows, err := c.fill(ctx, f, s, here)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), c.OutputFile)
	}
	if err != nil {
		return 0, errors.Join(err, os.Remove(f.Name()))
	}
	return rows, nil
}

func (c *stateExportCommand) fill(ctx context.Context, f *os.File, s opened, here place) (rows int64, err error) {
	out := bufio.NewWriterSize(f, 1<<20)
	for _, partition := range here.partitions {
		q := admin.ScanRequest{Store: c.Store, Partition: partition, Stale: c.Stale}
		n, err := writeRows(ctx, out, s, q, s.rows(c.Store, here.layout, c.Encoding))
		if err != nil {
			return 0, err
		}
		rows += n
	}
	err = json.NewEncoder(out).Encode(endLine{"end", rows})
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	return rows, err
}
