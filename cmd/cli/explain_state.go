package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/processors/evidence"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/processors/transition"
	"github.com/onceward/onceward/topology"
)

// presentRow is what a store holds under a key. Its fields are for programs and stay.
type presentRow struct {
	Store string `json:"store"`
	// Partitions are those that the instance has, which were asked; Of is how many there are, if
	// that is known.
	Partitions []int32 `json:"partitions"`
	Of         int32   `json:"of,omitempty"`
	// Answers has one for each partition that has the row.
	Answers []stateGetAnswer `json:"answers"`

	found []lookedUp
}

// addState adds what the stores hold now: in the row, for each store of a decision about it, and of
// the subject of each decision.
func (c *explainCommand) addState(
	ctx context.Context, p *process, t *topology.Topology, x *explanation, key []byte,
) (err error) {
	state, err := openState(ctx, c.StateDir)
	if err != nil {
		return err
	}
	s := opened{state, t}
	defer func() { err = errors.Join(err, s.Close()) }()
	if t == nil {
		d := stateDirectory{StateDir: c.StateDir, selection: c.selection}
		if s.topology, err = d.known(p, s.Identity().Application); err != nil {
			return err
		}
	}
	now := presently{opened: s, encoding: c.Encoding, stale: c.Stale}
	if now.places, err = s.places(ctx); err != nil {
		return err
	}
	stores := map[string]bool{"": true}
	for i := range x.Decisions {
		d := &x.Decisions[i]
		if !stores[d.Store] {
			stores[d.Store] = true
			row, err := now.row(ctx, d.Store, key)
			if err != nil {
				return err
			}
			x.Now = append(x.Now, row)
		}
		if d.Holds, err = now.subject(ctx, &d.Entry); err != nil {
			return err
		}
	}
	for i := range x.Followed {
		d := &x.Followed[i].decided
		if d.Holds, err = now.subject(ctx, &d.Entry); err != nil {
			return err
		}
	}
	return nil
}

// presently reads what the stores of an instance hold.
type presently struct {
	opened
	places   map[string]place
	encoding string
	stale    bool
}

// row returns what a store holds under a key. The instance need not have the store.
func (n *presently) row(ctx context.Context, store string, key []byte) (presentRow, error) {
	here := n.places[store]
	row := presentRow{Store: store, Partitions: append([]int32{}, here.partitions...), Of: here.of, Answers: []stateGetAnswer{}}
	rows := n.rows(store, here.layout, n.encoding)
	for _, partition := range here.partitions {
		found, err := n.lookUp(ctx, store, partition, key, rows, nil, n.stale)
		if err != nil {
			return row, explainStale(err, n.stale)
		}
		if len(found.rows) > 0 {
			row.Answers, row.found = append(row.Answers, found.answer()), append(row.found, found)
		}
	}
	return row, nil
}

// subject returns the row of the subject of a decision, nil if this instance has none.
func (n *presently) subject(ctx context.Context, e *evidence.Entry) (*presentRow, error) {
	if e.Subject == "" {
		return nil, nil //nolint:nilnil // most decisions have nothing like it
	}
	store, key, ok := ledger.ContributionRow(e.Store, e.Row, e.Subject)
	if !ok {
		store, key, ok = transition.FactRow(e.Store, e.Row, e.Subject)
	}
	if !ok {
		return nil, nil //nolint:nilnil // as above
	}
	row, err := n.row(ctx, store, key)
	if err != nil || len(row.found) == 0 {
		return nil, err
	}
	return &row, nil
}

// lines is what the row holds, for people.
func (r *presentRow) lines() []string {
	switch {
	case len(r.Partitions) == 0:
		return []string{fmt.Sprintf("now in %s: unknown, the instance does not have the store", r.Store)}
	case len(r.found) == 0 && r.Of > int32(len(r.Partitions)):
		return []string{fmt.Sprintf("now in %s: no row in partition %s of %d", r.Store, numbers(r.Partitions), r.Of)}
	case len(r.found) == 0:
		return []string{fmt.Sprintf("now in %s: no row", r.Store)}
	}
	lines := r.values("now in ")
	for _, f := range r.found {
		lines = append(lines, "  "+atText(f.at))
	}
	return lines
}

// values is one line for each value.
func (r *presentRow) values(lead string) (lines []string) {
	for _, f := range r.found {
		for _, line := range f.lines() {
			lines = append(lines, lead+r.Store+": "+line)
		}
	}
	return lines
}
