//go:build unix

package pipeline

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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
