package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// readFile reads a file of at most that many bytes. A file of any size may have the name of a small
// one.
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

// decode reads the one object of a file into what into points to, and checks its fields. With strict
// an unknown field is refused. Errors wrap ErrCorrupt and name the file.
func (f fields) decode(file string, data []byte, strict bool, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if strict {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrCorrupt, file, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %s goes on behind its end", ErrCorrupt, file)
	}
	if err := f.check(data); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrCorrupt, file, err)
	}
	return nil
}

// check refuses an object that lacks a field, or has it under another spelling: package
// encoding/json makes a missing field zero, and reads "Instance" as "instance". The decoder refuses
// or skips unknown fields.
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
