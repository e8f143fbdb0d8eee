package measure

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// Write leaves a result in the directory, as name.md for people and as name.json for programs. It
// makes the directory.
func Write(dir, name, markdown string, result any) error {
	text, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, name+".md"), []byte(markdown), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".json"), append(text, '\n'), 0o644)
}
