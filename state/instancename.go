package state

import (
	"errors"
	"fmt"
)

// nameLengthMax leaves room in a file name for what is put around a name.
const nameLengthMax = 200

// checkName returns why name may not be part of a path: it has 1 to 200 of the characters A-Z a-z
// 0-9 . _ - and is neither "." nor "..". This excludes separators, drives, control characters and
// homoglyphs.
func checkName(name string) error {
	if name == "" || len(name) > nameLengthMax {
		return fmt.Errorf("a name has 1 to %d characters, this one has %d", nameLengthMax, len(name))
	}
	if name == "." || name == ".." {
		return errors.New(`"." and ".." are no names`)
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return fmt.Errorf("%q has a character other than A-Z a-z 0-9 . _ -", name)
		}
	}
	return nil
}

// CheckInstance reports why OpenDirectory would not take id for an instance, without touching the
// disk: see [DirectoryOptions].Instance.
func CheckInstance(id string) error { return checkName(id) }
