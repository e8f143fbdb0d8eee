package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
)

// stateCommand groups what reads the state of an instance.
type stateCommand struct {
	Get    stateGetCommand    `cmd:"" help:"Show the value of a key."`
	Scan   stateScanCommand   `cmd:"" help:"Show the rows of a store in the order of their keys."`
	Stats  stateStatsCommand  `cmd:"" help:"Show the size and the positions of every store."`
	Export stateExportCommand `cmd:"" help:"Write the rows of a store to a file, as lines of JSON."`
	Check  stateCheckCommand  `cmd:"" help:"Recompute the balances of a ledger from its contributions, and compare."`

	Checkpoint stateCheckpointCommand `cmd:"" help:"Take a checkpoint of a task, which goes on meanwhile."`
	Import     stateImportCommand     `cmd:"" help:"Give a task that an instance does not have the state of a checkpoint."`
}

// stateDirectory says whose state is read, and which topology knows the types in it.
type stateDirectory struct {
	StateDir string `required:"" placeholder:"DIR" env:"ONCEWARD_STATE_DIR" help:"State directory of an instance on this machine, running or not."`
	selection
}

// opened is the state of an instance with the codecs that the chosen topology has for it.
type opened struct {
	*admin.State
	topology *topology.Topology // nil without one
}

// open opens the directory. A topology is not needed: without one, rows are bytes.
func (d stateDirectory) open(ctx context.Context, p *process) (opened, error) {
	s, err := openState(ctx, d.StateDir)
	if err != nil {
		return opened{}, err
	}
	t, err := d.known(p, s.Identity().Application)
	if err != nil {
		return opened{}, errors.Join(err, s.Close())
	}
	return opened{s, t}, nil
}

// openState opens the directory that is given with --state-dir.
func openState(ctx context.Context, dir string) (*admin.State, error) {
	s, err := admin.OpenState(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usage("there is no state directory %s; check --state-dir", dir)
	}
	return s, err
}

// known returns the topology that was asked for, or else the program's own one of that application,
// nil if it has none.
func (d stateDirectory) known(p *process, application string) (*topology.Topology, error) {
	if d.File != "" || d.Topology != "" {
		return d.topology(p)
	}
	i := slices.IndexFunc(p.topologies, func(t *topology.Topology) bool { return t.Application() == application })
	switch {
	case i >= 0:
		return p.topologies[i], nil
	case len(p.topologies) == 1: // run under another application id
		return p.topologies[0], nil
	}
	return nil, nil //nolint:nilnil // rows are readable without
}

// rows returns how to show the rows of a store.
func (o opened) rows(store string, layout state.Layout, encoding string) rowEncoder {
	e := rowEncoder{encoding: encoding, layout: layout}
	if o.topology != nil {
		e.rows, e.decodes = o.topology.Rows(store)
	}
	return e
}

// place is a store as the instance has it.
type place struct {
	// partitions are those that it has, or the one that is asked for, of how many if that is known.
	partitions []int32
	of         int32
	layout     state.Layout
}

// places returns the stores of the instance by their names.
func (o opened) places(ctx context.Context) (map[string]place, error) {
	tasks, err := o.Tasks(ctx, admin.Names)
	if err != nil {
		return nil, err
	}
	all := map[string]place{}
	for _, t := range tasks {
		for _, s := range t.Stores {
			here := all[s.Name]
			here.partitions, here.of, here.layout = append(here.partitions, t.Task.Partition), max(here.of, s.Partitions), s.Layout
			all[s.Name] = here
		}
	}
	return all, nil
}

// declarations returns the stores of all tasks of the instance, each as often as it is there.
func (o opened) declarations(ctx context.Context) (stores []state.Declaration, err error) {
	tasks, err := o.Tasks(ctx, admin.Names)
	if err != nil {
		return nil, err
	}
	for _, t := range tasks {
		for _, store := range t.Stores {
			stores = append(stores, state.Declaration{Name: store.Name, Layout: store.Layout})
		}
	}
	return stores, nil
}

// here finds a store of the instance.
func (o opened) here(ctx context.Context, store string, only *int32) (place, error) {
	all, err := o.places(ctx)
	if err != nil {
		return place{}, err
	}
	here, known := all[store]
	switch {
	case len(all) == 0:
		return place{}, fmt.Errorf("the instance has no store open that could be read; status shows its tasks while it runs")
	case !known:
		return place{}, usage("the instance has no store %q; it has %s", store, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	case only == nil:
		return here, nil
	case !slices.Contains(here.partitions, *only):
		return place{}, usage("--partition: the instance has the partitions %s of store %s; others are elsewhere",
			numbers(here.partitions), store)
	}
	here.partitions = []int32{*only}
	return here, nil
}

// others says of how many partitions these are, if there are more.
func (h place) others() string {
	if h.of > int32(len(h.partitions)) {
		return fmt.Sprintf("; there are %d partitions, and the instance that has another one has to be asked for it", h.of)
	}
	return ""
}

func numbers(partitions []int32) string {
	texts := make([]string, len(partitions))
	for i, n := range partitions {
		texts[i] = fmt.Sprint(n)
	}
	return strings.Join(texts, ", ")
}

// explainStale says how to read state that was refused for being behind.
func explainStale(err error, stale bool) error {
	behind := func(refusal error) bool { return errors.Is(err, refusal) }
	if stale || !slices.ContainsFunc([]error{txn.ErrRestoring, txn.ErrTaskStopped, txn.ErrInDoubt, txn.ErrOwnershipLost}, behind) {
		return err
	}
	return fmt.Errorf("%w; --stale reads it all the same", err)
}

// stateAt is the JSON form of where state is. Its fields are for programs and stay.
type stateAt struct {
	Task      string `json:"task"`
	Partition int32  `json:"partition"`
	// Round is empty before the first one, Epoch for an instance that does not run.
	Round      string        `json:"round,omitempty"`
	Epoch      string        `json:"epoch,omitempty"`
	Stale      string        `json:"stale,omitempty"`
	WrittenAt  *time.Time    `json:"written_at,omitempty"`
	Inputs     []inputAt     `json:"inputs"`
	Changelogs []changelogAt `json:"changelogs"`
}

type inputAt struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	// StreamTime is in milliseconds since the epoch; null when there is none.
	StreamTime *int64 `json:"stream_time"`
}

type changelogAt struct {
	Store   string `json:"store"`
	TopicID string `json:"topic_id"`
	Applied int64  `json:"applied"`
	Scanned int64  `json:"scanned"`
}

func stateAtOf(at admin.At) stateAt {
	out := stateAt{Task: at.Task.String(), Partition: at.Task.Partition, Inputs: []inputAt{}, Changelogs: []changelogAt{}}
	p := at.Positions
	if !p.Round.IsZero() {
		out.Round = p.Round.String()
	}
	if at.Epoch.Member != "" {
		out.Epoch = at.Epoch.String()
	}
	if at.Stale != nil {
		out.Stale = at.Stale.Error()
	}
	if p.WrittenAt != 0 {
		written := time.UnixMilli(p.WrittenAt).UTC()
		out.WrittenAt = &written
	}
	for _, in := range p.Inputs {
		shown := inputAt{Topic: in.Topic, Partition: in.Partition, Offset: in.Offset}
		if in.StreamTime != state.NoTime {
			shown.StreamTime = &in.StreamTime
		}
		out.Inputs = append(out.Inputs, shown)
	}
	for _, c := range p.Changelogs {
		out.Changelogs = append(out.Changelogs, changelogAt{c.Store, fmt.Sprintf("%x", c.TopicID), c.Applied, c.Scanned})
	}
	return out
}

// atText is where state is, in one line for people.
func atText(at admin.At) string {
	text := "task " + at.Task.String() + ", "
	if at.Epoch.Member != "" {
		text += "epoch " + at.Epoch.String() + ", "
	}
	text += at.Positions.String()
	if at.Stale != nil {
		text += "; stale: " + at.Stale.Error()
	}
	return text
}
