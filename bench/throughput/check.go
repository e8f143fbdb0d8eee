package throughput

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/bench/workload"
	"github.com/onceward/onceward/topology/graph"
)

// CheckConfig says what is checked.
type CheckConfig struct {
	Brokers  []string
	Workload string
	In, Out  string
	// Until is how many records of the input have been committed at least; 0 is all of them. A
	// workload that shuffles is judged by all of the input.
	Until int64
	// StateDir is the state directory of an application of ours that has stopped; empty if there is
	// none, and the outputs are judged alone.
	StateDir string
	// Application is whose state that is, and whose evidence; empty if that may be anybody's.
	Application string
}

// Checked says what was right.
type Checked struct {
	// Inputs are the records of the input that led to the outputs.
	Inputs int64 `json:"inputs"`
	// Bytes are those of their keys and values.
	Bytes   int64 `json:"bytes"`
	Outputs int64 `json:"outputs"`
	// Entries are those of the evidence, 0 for a workload without.
	Entries int64 `json:"entries,omitempty"`
	// Keys and Rows are the accounts and the rows of state that were compared.
	Keys int64 `json:"keys"`
	Rows int64 `json:"state_rows"`
	// Sums is what the state has to be, and Events how many events there were, duplicates left out,
	// for who has state of another form to compare. Both are empty for a workload without state.
	Sums   map[workload.Account]workload.Sum `json:"-"`
	Events int64                             `json:"-"`
}

// String is what was right, for people.
func (c Checked) String() string {
	evidence := ""
	if c.Entries > 0 {
		evidence = fmt.Sprintf(", %d entries of evidence", c.Entries)
	}
	return fmt.Sprintf("%d outputs of %d inputs%s and %d rows of state are right", c.Outputs, c.Inputs, evidence, c.Rows)
}

// Check reads the input and the output of a workload, and the state if there is one, and compares
// the outputs with what they have to be, whoever wrote them. Anything wrong is an [ErrWrong].
func Check(ctx context.Context, cfg CheckConfig) (_ Checked, err error) {
	w, err := workload.Find(cfg.Workload)
	if err != nil {
		return Checked{}, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	c, err := connect(cfg.Brokers)
	if err != nil {
		return Checked{}, err
	}
	defer c.close()
	k := &checker{cfg: cfg, workload: w, found: Checked{Sums: map[workload.Account]workload.Sum{}}}
	if k.in, err = c.ends(ctx, cfg.In); err != nil {
		return Checked{}, err
	}
	if k.out, err = c.settledEnds(ctx, cfg.Out); err != nil {
		return Checked{}, err
	}
	switch n := sum(k.in); {
	case cfg.Until == 0:
		cfg.Until = n
	case cfg.Until < 0 || cfg.Until > n:
		return Checked{}, fmt.Errorf("%w: topic %s has %d records, and the outputs of %d are to be checked", ErrUnusable, cfg.In, n, cfg.Until)
	}
	if len(k.in) != len(k.out) {
		return Checked{}, fmt.Errorf("%w: topics %s and %s do not have the same number of partitions", ErrUnusable, cfg.In, cfg.Out)
	}
	if cfg.StateDir != "" && w.Store != "" {
		if k.state, err = openState(ctx, cfg, w); err != nil {
			return Checked{}, err
		}
		defer func() { err = errors.Join(err, k.state.Close()) }()
	}
	if w.Shuffles {
		err = k.shuffled(ctx)
	} else {
		err = k.ordered(ctx)
	}
	if err == nil && w.Evidence {
		err = k.audit(ctx, c)
	}
	if err == nil && k.found.Inputs < cfg.Until {
		return k.found, fmt.Errorf("%w: the outputs are those of %d records, and at least %d were committed", ErrWrong, k.found.Inputs,
			cfg.Until)
	}
	if k.state != nil {
		k.found.Rows = k.state.rows
	}
	return k.found, err
}

type checker struct {
	cfg      CheckConfig
	workload workload.Workload
	// in and out are the ends of the partitions.
	in, out []int64
	state   *stateReader // nil if state is not compared
	found   Checked
}

func wrong(r *kgo.Record, err error) error {
	return fmt.Errorf("%w: %s[%d] offset %d: %w", ErrWrong, r.Topic, r.Partition, r.Offset, err)
}

// count counts an input that has led to what it has to.
func (k *checker) count(r *kgo.Record) {
	k.found.Inputs++
	k.found.Bytes += int64(len(r.Key) + len(r.Value))
}

// states notes what the state of some partitions has to be. No key is in two of them.
func (k *checker) states(sums map[workload.Account]workload.Sum, events int64) {
	maps.Copy(k.found.Sums, sums)
	k.found.Keys += int64(len(sums))
	k.found.Events += events
}

// ordered judges partition by partition.
func (k *checker) ordered(ctx context.Context) error {
	for p := range k.in {
		judge := k.workload.NewOrdered()
		if err := k.orderedPartition(ctx, int32(p), judge); err != nil {
			return err
		}
		k.states(judge.Sums(), judge.Events())
		if k.state == nil {
			continue
		}
		if err := k.state.compare(ctx, []int32{int32(p)}, judge.Sums(), judge.Events()); err != nil {
			return err
		}
	}
	return nil
}

// orderedPartition reads input and output side by side. The inputs that have led to an output are
// those before the first one whose output is not there.
func (k *checker) orderedPartition(ctx context.Context, p int32, judge workload.Ordered) error {
	in, err := newReader(k.cfg.Brokers, k.cfg.In, p, 0, k.in[p])
	if err != nil {
		return err
	}
	defer in.close()
	out, err := newReader(k.cfg.Brokers, k.cfg.Out, p, 0, k.out[p])
	if err != nil {
		return err
	}
	defer out.close()
	got, err := out.next(ctx)
	if err != nil {
		return err
	}
	for {
		r, err := in.next(ctx)
		switch {
		case err != nil:
			return err
		case r == nil && got != nil:
			return wrong(got, errors.New("there is no input for it"))
		case r == nil:
			return nil
		}
		want, leads, err := judge.Input(judged(r))
		switch {
		case err != nil:
			return fmt.Errorf("%w: %s[%d] offset %d: %w", ErrUnusable, r.Topic, r.Partition, r.Offset, err)
		case leads && got == nil:
			judge.Undo()
			return nil
		case leads:
			if err := judge.Compare(judged(got), want); err != nil {
				return wrong(got, err)
			}
			k.found.Outputs++
			if got, err = out.next(ctx); err != nil {
				return err
			}
		}
		k.count(r)
	}
}

// shuffled judges all partitions together.
func (k *checker) shuffled(ctx context.Context) error {
	judge := k.workload.NewShuffled()
	err := k.each(ctx, k.cfg.In, k.in, func(r *kgo.Record) error {
		k.count(r)
		if err := judge.Input(judged(r)); err != nil {
			return fmt.Errorf("%w: %s[%d] offset %d: %w", ErrUnusable, r.Topic, r.Partition, r.Offset, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = k.each(ctx, k.cfg.Out, k.out, func(r *kgo.Record) error {
		k.found.Outputs++
		if graph.PartitionOf(r.Key, int32(len(k.out))) != r.Partition {
			return wrong(r, errors.New("the key belongs to another partition"))
		}
		if err := judge.Output(judged(r)); err != nil {
			return wrong(r, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := judge.Done(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrWrong, k.cfg.Out, err)
	}
	sums := judge.Sums()
	k.states(sums, judge.Events())
	if k.state == nil {
		return nil
	}
	var partitions []int32
	for p := range k.in {
		partitions = append(partitions, int32(p))
	}
	return k.state.compare(ctx, partitions, sums, judge.Events())
}

// audit judges the evidence.
func (k *checker) audit(ctx context.Context, c *cluster) error {
	topic := workload.EvidenceTopic(k.cfg.Out)
	ends, err := c.settledEnds(ctx, topic)
	if err != nil {
		return err
	}
	audit := workload.NewAudit(k.cfg.Application, k.cfg.In)
	err = k.each(ctx, topic, ends, func(r *kgo.Record) error {
		if err := audit.Entry(judged(r)); err != nil {
			return wrong(r, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = k.each(ctx, k.cfg.In, k.in, func(r *kgo.Record) error { return audit.Input(judged(r), r.Partition, r.Offset) })
	if err != nil {
		return err
	}
	entries, posted, err := audit.Done()
	if err == nil && posted != k.found.Outputs {
		err = fmt.Errorf("it tells of %d events that were posted, and there are %d outputs", posted, k.found.Outputs)
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrWrong, topic, err)
	}
	k.found.Entries = entries
	return nil
}

// each reads the partitions of a topic, one after the other.
func (k *checker) each(ctx context.Context, topic string, ends []int64, f func(r *kgo.Record) error) error {
	for p, end := range ends {
		if err := k.eachOf(ctx, topic, int32(p), end, f); err != nil {
			return err
		}
	}
	return nil
}

func (k *checker) eachOf(ctx context.Context, topic string, p int32, end int64, f func(r *kgo.Record) error) error {
	in, err := newReader(k.cfg.Brokers, topic, p, 0, end)
	if err != nil {
		return err
	}
	defer in.close()
	for {
		r, err := in.next(ctx)
		if r == nil || err != nil {
			return err
		}
		if err := f(r); err != nil {
			return err
		}
	}
}
