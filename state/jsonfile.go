package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// readFile reads a file of at most so many bytes. What has the name of a small file may be
// anything.
func readFile(root *os.Root, name string, most int64) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%w: %s has more than %d bytes", ErrCorrupt, name, most)
	}
	return data, errors.Join(err, f.Close())
}

// fields are the names of what the object in a JSON file has, and of what it may have.
type fields struct{ required, optional []string }

// check refuses an object that lacks a field, or has it under another spelling: for package
// encoding/json a field that is not there is zero, and "Instance" is "instance" too. What nobody
// knows is for the decoder to refuse or to skip.
func (f fields) check(data []byte) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil {
		return err
	}
	for _, name := range f.required {
		if value, ok := object[name]; !ok || string(value) == "null" {
			return fmt.Errorf("the field %q is missing", name)
		}
	}
	for name := range object {
		for _, known := range slices.Concat(f.required, f.optional) {
			if name != known && strings.EqualFold(name, known) {
				return fmt.Errorf("there is a field %q, which is spelled %q", name, known)
			}
		}
	}
	return nil
}
