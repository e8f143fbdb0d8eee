package ledger

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/onceward/onceward/processors/internal/declare"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Option is an option of [Post] and [PostWindowed].
type Option func(s *settings) error

type settings struct {
	declare.Common
	columns []string
	scales  map[string]uint8
	// emitsConflicts says that conflicts are emitted instead of failing.
	emitsConflicts bool
	// windows are zero in a ledger without windows.
	windows Windows
	// eventTime is a func(topology.Record[K, V]) (int64, error), whose type parameters only
	// PostWindowed can check, or nil.
	eventTime any
	// comparesPayload says that payloads are compared, payload how: what package payload takes.
	comparesPayload bool
	payload         any
}

func newSettings(opts []Option) *settings {
	s := &settings{}
	declare.Apply(&s.Common, s, opts)
	if s.columns == nil {
		s.columns = []string{"amount"}
	}
	for column := range s.scales {
		if !slices.Contains(s.columns, column) {
			s.Mistake(fmt.Errorf("Scale: there is no column %q; there are %s", column, strings.Join(s.columns, ", ")))
		}
	}
	return s
}

// scalesOf returns the scale of each column.
func (s *settings) scalesOf() []uint8 {
	scales := make([]uint8, len(s.columns))
	for i, column := range s.columns {
		scales[i] = s.scales[column]
	}
	return scales
}

// format returns the description of the amounts in the stored form: the names of the columns in
// their order, with the scales that are not 0, and the windows, if there are any.
func (s *settings) format() string {
	formats := slices.Clone(s.columns)
	for i, scale := range s.scalesOf() {
		if scale > 0 {
			formats[i] += "/" + strconv.Itoa(int(scale))
		}
	}
	columns := strings.Join(formats, ",")
	if w := s.windows; w != (Windows{}) {
		columns += fmt.Sprintf("@%d/%d", w.Size.Milliseconds(), w.Advance.Milliseconds())
	}
	return columns
}

// Scale says that the amounts of a column are decimals with that many places behind the point, 0 to
// [ScaleMax]: a ledger counts them in units of the last place. It lets contributions state their
// amounts as Decimals. A scale belongs to the stored form, like the name of the column.
func Scale(column string, places uint8) Option {
	return func(s *settings) error {
		if places > ScaleMax {
			return fmt.Errorf("Scale(%q, %d): a column has at most %d places", column, places, ScaleMax)
		}
		if _, given := s.scales[column]; given {
			return fmt.Errorf("Scale(%q) is given twice", column)
		}
		if s.scales == nil {
			s.scales = map[string]uint8{}
		}
		s.scales[column] = places
		return nil
	}
}

// Key gives the codec for keys in the stores. Keys that are strings, []byte, int32 or int64 need
// none. K must be the type of the stream's keys.
func Key[K any](codec schemas.Codec[K]) Option {
	return func(s *settings) error { return s.SetKeys(codec) }
}

var columnPattern = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// Columns names what is added up, in the order of the amounts. The default is one column, "amount".
// Names and order belong to the stored form, like the name of the ledger.
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

// EmitConflicts emits conflicts ([Ledger.Conflicts]) instead of failing them.
func EmitConflicts() Option {
	return func(s *settings) error {
		s.emitsConflicts = true
		return nil
	}
}

// OnError sets the ledger's reaction to errors of class, such as topology.Conflict.
func OnError(class topology.Class, policy topology.Policy) Option {
	return func(s *settings) error { return s.OnError(class, policy) }
}
