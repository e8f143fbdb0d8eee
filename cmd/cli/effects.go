package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/admin"
)

// effectsCommand groups what is about the calls to other systems.
type effectsCommand struct {
	List    effectsListCommand    `cmd:"" help:"Show the effects of a ledger, with their statuses."`
	Show    effectsShowCommand    `cmd:"" help:"Show what is known of an effect."`
	Resolve effectsResolveCommand `cmd:"" help:"Decide the outcome of an unknown or suppressed effect."`
}

// effectsFlags say which side-effect ledger is meant. No topology is needed to read it: all have
// rows of one form.
type effectsFlags struct {
	StateDir  string `required:"" placeholder:"DIR" env:"ONCEWARD_STATE_DIR" help:"State directory of an instance on this machine, running or not."`
	Effects   string `placeholder:"NAME" help:"The side-effect ledger, by the name of its node; default is the only one that the instance has."`
	Partition *int32 `placeholder:"N" help:"Partition to look in; default is every one that the instance has."`
}

// openEffects is a side-effect ledger of an instance.
type openEffects struct {
	opened
	name  string
	place place
}

func (f effectsFlags) open(ctx context.Context) (o openEffects, err error) {
	s, err := openState(ctx, f.StateDir)
	if err != nil {
		return o, err
	}
	o = openEffects{opened: opened{State: s}}
	stores, err := o.declarations(ctx)
	if err == nil {
		o.name, err = chosen("side-effect ledger", "--effects", f.Effects, effect.Names(stores))
	}
	if err == nil {
		o.place, err = o.here(ctx, o.name, f.Partition)
	}
	if err != nil {
		return openEffects{}, errors.Join(err, s.Close())
	}
	return o, nil
}

// claimed returns the steps that are claimed in a partition, by their effects. Of an instance that
// runs that is a moment before the effects are read: for as long as a round takes, one can have
// lost or got its claim in between. The ledger itself sees both at once.
func (o openEffects) claimed(ctx context.Context, partition int32, stale bool) (claims map[string]effect.Claimed, err error) {
	_, _, store := effect.Stores(o.name)
	scan, err := o.Scan(ctx, admin.ScanRequest{Store: store, Partition: partition, Stale: stale})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, scan.Close()) }()
	return effect.ReadClaims(scan.Rows())
}

// effectAt is an effect with where it was read.
type effectAt struct {
	at admin.At
	id string
	effect.Effect
	// claim is nil if no step of it is claimed.
	claim *effect.Claimed
}

// find returns the effect of that id in every partition that has one: requests under two keys are
// two effects.
func (o openEffects) find(ctx context.Context, id string, stale bool) (found []effectAt, err error) {
	for _, partition := range o.place.partitions {
		claims, err := o.claimed(ctx, partition, stale)
		if err != nil {
			return nil, err
		}
		row, err := o.Get(ctx, o.name, partition, []byte(id), stale)
		if err != nil {
			return nil, err
		}
		if !row.Found {
			continue
		}
		e, err := o.read(row.At, state.Entry{Key: []byte(id), Value: row.Value}, claims)
		if err != nil {
			return nil, err
		}
		found = append(found, e)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("ledger %s has no effect with that id in partition %s%s", o.name, numbers(o.place.partitions), o.place.others())
	}
	return found, nil
}

// read reads a row.
func (o openEffects) read(at admin.At, row state.Entry, claims map[string]effect.Claimed) (effectAt, error) {
	id, e, err := effect.ReadEffect(row)
	if err != nil {
		return effectAt{}, fmt.Errorf("ledger %s: %w", o.name, err)
	}
	out := effectAt{at: at, id: id, Effect: e}
	if claim, has := claims[id]; has {
		out.claim = &claim
	}
	return out, nil
}
