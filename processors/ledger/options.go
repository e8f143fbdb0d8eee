package ledger

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/onceward/onceward/processors/internal/declare"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Option is an option of [Post].
type Option func(s *settings) error

type settings struct {
	declare.Common
	columns []string
}

func newSettings(opts []Option) *settings {
	s := &settings{}
	declare.Apply(&s.Common, s, opts)
	if s.columns == nil {
		s.columns = []string{"amount"}
	}
	return s
}

// Key gives the codec for keys in the stores. Keys that are strings, []byte, int32 or int64 need none. K must
// be the type of the stream's keys.
func Key[K any](codec schemas.Codec[K]) Option {
	return func(s *settings) error { return s.SetKeys(codec) }
}

var columnPattern = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// Columns names what is added up, in the order of the amounts. The default is one column, "amount". Names and
// order belong to the stored form, like the name of the ledger.
func Columns(names ...string) Option {
	return func(s *settings) error {
		var errs []error
		if s.columns != nil {
			errs = append(errs, errors.New("Columns is given twice"))
		}
		if n := len(names); n == 0 || n > columnsMax {
			errs = append(errs, fmt.Errorf("Columns: there are %d names; a ledger has 1 to %d columns", n, columnsMax))
		}
		for i, name := range names {
			if !columnPattern.MatchString(name) {
				errs = append(errs, fmt.Errorf("Columns: %q is no name; it takes A-Z a-z 0-9 . _ -", name))
			} else if slices.Contains(names[:i], name) {
				errs = append(errs, fmt.Errorf("Columns: %q is there twice", name))
			}
		}
		s.columns = slices.Clone(names)
		return errors.Join(errs...)
	}
}

// OnError sets the ledger's reaction to errors of class, such as topology.Conflict.
func OnError(class topology.Class, policy topology.Policy) Option {
	return func(s *settings) error { return s.OnError(class, policy) }
}
