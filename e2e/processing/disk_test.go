//go:build unix

package processing

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/state/pebblestore/disktest"
)

// corrupted damages every file of every database: none of them is served, and all are restored.
func corrupted(s *scene) {
	l := s.start(s.settings)
	for range 2 {
		s.more(everything)
		s.finish(l.Alive)
	}
	l.End()
	damaged := 0
	err := filepath.WalkDir(filepath.Join(s.settings.StateDir, "tasks"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || len(text) == 0 {
			return err
		}
		for i := range text {
			text[i] ^= 0x55
		}
		if strings.HasPrefix(d.Name(), "MANIFEST") || strings.HasSuffix(d.Name(), ".sst") {
			damaged++
		}
		return os.WriteFile(path, text, 0o600)
	})
	if err != nil || damaged == 0 {
		s.t.Fatalf("%d files were damaged (%v): nothing is shown", damaged, err)
	}
	s.whole()
}

// diskBytes is how much fits on the disk of a row that fills it up.
const diskBytes = 1 << 30

// full fills the disk of an instance up, and makes room again: its tasks wait for it, and go on by
// themselves.
func full(s *scene) {
	disk := disktest.New(diskBytes)
	top, err := s.settings.Topology()
	if err != nil {
		s.t.Fatal(err)
	}
	host := s.hostName(s.settings)
	log := instance.NewLog(s.t, host)
	cfg := instance.On(s.cluster, host, s.settings.Config())
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	if cfg, err = instance.OnDisk(cfg, disk.Use); err != nil {
		s.t.Fatal(err)
	}
	l := instance.Start(s.t, top, cfg)
	s.more(everything)
	s.finish(l.Alive)
	disk.SetFree(0)
	said := func(words string) bool { return len(log.Lines(words)) > 0 }
	for !said("tasks wait for space on the disk") {
		s.more(everything)
		s.until("a task that waits, or the end of what was fed", l.Alive, func() error {
			if said("tasks wait for space on the disk") {
				return nil
			}
			return s.finished()
		})
	}
	s.more(everything)
	disk.SetFree(diskBytes)
	s.finish(l.Alive)
	if !said("the disk has space again") {
		s.t.Error("no task has waited for the disk: nothing is shown")
	}
	s.check(l)
	l.End()
	s.lose() // the disk with it: everything is restored
	s.whole()
}
