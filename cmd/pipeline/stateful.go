package pipeline

import (
	"regexp"
	"slices"
	"strings"

	"github.com/onceward/onceward/cmd/internal/yamldoc"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

type project struct {
	name           string
	version, value *expression
	sparse         bool
	gaps           projection.GapPolicy
	changes        branch
	stale, missing branch
	evidence       evidenceOf
}

func readProject(r *reader, v yamldoc.Value) streamStep {
	m := r.mapping(v, "name", "version", "value", "sparse", "gaps", "into", "stale", "gaps_into")
	s := project{name: r.name(m)}
	s.version = r.compile(m.Required("version"), "version", wantInt)
	s.value = r.compile(m.Optional("value"), "value", wantObject)
	s.sparse = m.Optional("sparse").Bool()
	gaps := m.Optional("gaps")
	if gaps.Choice("fail", "accept") == "accept" {
		s.gaps = projection.AcceptLatest
	}
	s.changes = r.branch(m.Required("into"), s.name)
	s.stale = r.branch(m.Optional("stale"), s.name)
	gapsInto := m.Optional("gaps_into")
	s.missing = r.branch(gapsInto, s.name)
	s.evidence = r.evidenceOf(s.name)
	switch {
	case s.sparse && gaps.Present():
		gaps.Mistake("sparse versions have no gaps; remove gaps or sparse")
	case s.sparse && gapsInto.Present():
		gapsInto.Mistake("sparse versions have no gaps; remove gaps_into or sparse")
	case gapsInto.Present() && s.gaps != projection.AcceptLatest:
		gapsInto.Mistake("a record that reveals a gap fails, so nothing would ever go there; add gaps: accept")
	}
	return s
}

func (p project) declare(s stream) stream {
	version := func(r record) (int64, error) { return p.version.Int(&r) }
	fold := func(_ *document, _ bool, r record) (*document, error) {
		if p.value != nil {
			return p.value.Object(&r)
		}
		d, _ := r.Value.Get() // a null deletes, and fold is not called for deletes
		return d, nil
	}
	opts := []projection.Option{projection.Key[key](keyCodec{})}
	if p.sparse {
		opts = append(opts, projection.Sparse())
	} else {
		opts = append(opts, projection.OnGap(p.gaps))
	}
	states := projection.Latest(s, p.name, version, fold, schemas.Codec[*document](documentCodec{}), opts...)
	into(p.changes, states.Changes, schemas.JSON[projection.Row[*document]]())
	into(p.stale, states.Stale, skippedCodec())
	into(p.missing, states.Gaps, gapCodec())
	p.evidence.record(states.Decisions)
	return s
}

// skippedCodec and gapCodec write a null value as null: an Option has no JSON form of its own.
func skippedCodec() schemas.Codec[projection.Skipped[value]] {
	return through(
		func(s projection.Skipped[value]) projection.Skipped[*document] {
			return projection.Skipped[*document]{
				Outcome: s.Outcome, Version: s.Version, Applied: s.Applied, Value: s.Value.Or(nil),
			}
		},
		func(s projection.Skipped[*document]) projection.Skipped[value] {
			return projection.Skipped[value]{
				Outcome: s.Outcome, Version: s.Version, Applied: s.Applied, Value: optional(s.Value),
			}
		})
}

func gapCodec() schemas.Codec[projection.Gap[value]] {
	return through(
		func(g projection.Gap[value]) projection.Gap[*document] {
			return projection.Gap[*document]{Expected: g.Expected, Actual: g.Actual, Value: g.Value.Or(nil)}
		},
		func(g projection.Gap[*document]) projection.Gap[value] {
			return projection.Gap[value]{Expected: g.Expected, Actual: g.Actual, Value: optional(g.Value)}
		})
}

func optional(d *document) value {
	if d == nil {
		return value{}
	}
	return topology.Some(d)
}

type post struct {
	name                   string
	id, corrects, reverses *expression
	columns                []string
	amounts                []*expression
	changes                branch
	conflicts              branch
	evidence               evidenceOf
}

// columnPattern is the ledger's, which knows no places.
var columnPattern = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

func readLedger(r *reader, v yamldoc.Value) streamStep {
	m := r.mapping(v, "name", "id", "amounts", "corrects", "reverses", "into", "conflicts")
	s := post{name: r.name(m, "-contributions", "-balances")}
	s.id = r.compile(m.Required("id"), "id", wantString)
	s.corrects = r.compile(m.Optional("corrects"), "corrects", wantStringOrNull)
	s.reverses = r.compile(m.Optional("reverses"), "reverses", wantStringOrNull)
	amounts := m.Required("amounts")
	entries := amounts.Mapping().Entries()
	if amounts.IsEmptyMapping() {
		amounts.Mistake("is empty; a ledger adds up at least one amount, such as {amount: event.amount}")
	}
	// The order of the columns belongs to the stored form. The order of the file must not, because
	// people sort keys.
	slices.SortFunc(entries, func(a, b yamldoc.Entry) int { return strings.Compare(a.Key, b.Key) })
	for _, e := range entries {
		if !columnPattern.MatchString(e.Key) {
			r.file.Mistake(e.KeyPosition, "%s: %q is no name for an amount; it takes A-Z a-z 0-9 . _ -",
				amounts.Path(), e.Key)
		}
		s.columns = append(s.columns, e.Key)
		s.amounts = append(s.amounts, r.compile(e.Value, "amounts."+e.Key, wantInt))
	}
	s.changes = r.branch(m.Required("into"), s.name)
	s.conflicts = r.branch(m.Optional("conflicts"), s.name)
	s.evidence = r.evidenceOf(s.name)
	return s
}

func (p post) declare(s stream) stream {
	opts := []ledger.Option{ledger.Columns(p.columns...), ledger.Key[key](keyCodec{})}
	if p.conflicts.topic != "" {
		opts = append(opts, ledger.EmitConflicts())
	}
	l := ledger.Post(s, p.name, p.contribution, opts...)
	into(p.changes, l.Changes, balanceCodec(p.columns))
	into(p.conflicts, l.Conflicts, nullableValues())
	p.evidence.record(l.Decisions)
	return s
}

func (p post) contribution(r record) (ledger.Contribution, error) {
	var c ledger.Contribution
	var err error
	if c.ID, err = p.id.Text(&r); err != nil {
		return c, err
	}
	if p.corrects != nil {
		if c.Corrects, err = p.corrects.TextOrNull(&r); err != nil {
			return c, err
		}
	}
	if p.reverses != nil {
		if c.Reverses, err = p.reverses.TextOrNull(&r); err != nil || c.Reverses != "" {
			return c, err // the amounts follow from what is reversed
		}
	}
	c.Amounts = make([]int64, len(p.amounts))
	for i, amount := range p.amounts {
		if c.Amounts[i], err = amount.Int(&r); err != nil {
			return c, err
		}
	}
	return c, nil
}

// balance is a ledger.Balance with the names of its columns, as it is written to a topic.
type balance struct {
	Count        int64            `json:"count"`
	Amounts      map[string]int64 `json:"amounts"`
	Contribution string           `json:"contribution"`
}

func balanceCodec(columns []string) schemas.Codec[ledger.Balance] {
	return through(
		func(b ledger.Balance) balance {
			named := balance{Count: b.Count, Amounts: map[string]int64{}, Contribution: b.Contribution}
			for i, column := range columns {
				named.Amounts[column] = b.Amounts[i]
			}
			return named
		},
		func(named balance) ledger.Balance {
			b := ledger.Balance{Count: named.Count, Contribution: named.Contribution}
			for _, column := range columns {
				b.Amounts = append(b.Amounts, named.Amounts[column])
			}
			return b
		})
}
