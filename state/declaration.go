package state

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Declaration is a store by its name, with its layout.
type Declaration struct {
	Name   string
	Layout Layout
}

// Compare orders declarations by name.
func (d Declaration) Compare(e Declaration) int { return strings.Compare(d.Name, e.Name) }

// Conflict returns why d cannot be declared where other has the same id: an error that wraps
// ErrStoreID for another name, ErrLayout for another layout, nil if they are the same.
func (d Declaration) Conflict(other Declaration) error {
	switch {
	case d.Name != other.Name:
		return fmt.Errorf("%w: %q and %q", ErrStoreID, other.Name, d.Name)
	case d.Layout != other.Layout:
		return fmt.Errorf("%w: %q has %s rows and is declared as %s", ErrLayout, d.Name, other.Layout, d.Layout)
	}
	return nil
}

// validate reports what is wrong with d by itself.
func (d Declaration) validate() error {
	if d.Name == "" || strings.IndexByte(d.Name, 0) >= 0 {
		return errors.New("a store has a name, without zero bytes: they end it in the database")
	}
	if err := d.Layout.Validate(); err != nil {
		return fmt.Errorf("store %q: %w", d.Name, err)
	}
	return nil
}

// Undeclared returns those of stores that a database has to write down, each once: that are not in
// known, and those with another layout of which it has no rows. It is how a Database judges what
// Declare was given; empty says whether a store has no rows, and the errors are those of Declare,
// or its own.
func Undeclared(
	known map[StoreID]Declaration, stores []Declaration, empty func(StoreID) (bool, error),
) (added []Declaration, err error) {
	for i, d := range stores {
		if err := d.validate(); err != nil {
			return nil, err
		}
		id := IDOf(d.Name)
		if j := slices.IndexFunc(stores[:i], func(o Declaration) bool { return IDOf(o.Name) == id }); j >= 0 {
			if err := d.Conflict(stores[j]); err != nil {
				return nil, err
			}
			continue
		}
		if other, taken := known[id]; taken {
			conflict := d.Conflict(other)
			if conflict == nil {
				continue
			}
			if !errors.Is(conflict, ErrLayout) {
				return nil, conflict
			}
			if none, err := empty(id); err != nil || !none {
				return nil, cmp.Or(err, conflict)
			}
		}
		added = append(added, d)
	}
	return added, nil
}

// Append appends the form in which the database keeps d: the name, and for every layout but the
// plain one a zero byte and the layout.
func (d Declaration) Append(dst []byte) []byte {
	dst = append(dst, d.Name...)
	if d.Layout != (Layout{}) {
		dst = append(append(dst, 0), d.Layout.String()...)
	}
	return dst
}

// ParseDeclaration is the inverse of Append, and refuses everything that Append does not write. The
// error wraps ErrFormat for a layout that this build does not know, and ErrCorrupt for what is
// none.
func ParseDeclaration(b []byte) (Declaration, error) {
	name, layout, found := strings.Cut(string(b), "\x00")
	d := Declaration{Name: name}
	if found {
		var err error
		if d.Layout, err = ParseLayout(layout); err != nil {
			return Declaration{}, err
		}
	}
	if name == "" || found && d.Layout == (Layout{}) {
		return Declaration{}, fmt.Errorf("state: parse declaration: %w: %q is none", ErrCorrupt, b)
	}
	return d, nil
}

// Names lists the names of declared stores, for messages.
func Names(declared []Declaration) string {
	names := make([]string, len(declared))
	for i, d := range declared {
		names[i] = strconv.Quote(d.Name)
	}
	return "[" + strings.Join(names, " ") + "]"
}

// KeyValues declares key-value stores.
func KeyValues(names ...string) []Declaration {
	declared := make([]Declaration, len(names))
	for i, name := range names {
		declared[i] = Declaration{Name: name}
	}
	return declared
}
