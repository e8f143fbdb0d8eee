package soak

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/check"
	"github.com/onceward/onceward/e2e/testapp"
)

func (r *run) createTopics(ctx context.Context) error {
	for topic := range r.topics {
		if strings.HasPrefix(topic, application+"-") || topic == check.OffsetsTopic {
			continue // made by the application, or by the broker
		}
		if err := r.cluster.CreateTopic(ctx, topic, r.Partitions, nil); err != nil {
			return err
		}
	}
	return nil
}

// awaitInternalTopics waits until the application has made its topics and committed something: a
// reader of a topic that is not there yet would wait for its own metadata's next refresh.
func (r *run) awaitInternalTopics(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, quiesceMax)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		missing := ""
		listed, err := r.cluster.Admin().ListTopicsWithInternal(ctx)
		for topic := range r.topics {
			if !listed.Has(topic) {
				missing = topic
			}
		}
		if err == nil && missing == "" {
			return nil
		}
		for _, p := range r.processes {
			if err := p.Alive(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the application has not made topic %s: %w", missing, ctx.Err())
		case <-tick.C:
		}
	}
}

// newProcesses returns the instances and the spare, all of them down.
func (r *run) newProcesses() []*testapp.Process {
	processes := make([]*testapp.Process, 0, r.Instances+1)
	for i := range r.Instances + 1 {
		name := fmt.Sprintf("i%d", i+1)
		p := &testapp.Process{
			Program: r.program,
			Flags: testapp.Flags{
				Topology: testapp.AccountsTopology, Brokers: strings.Join(r.cluster.Brokers(), ","), Application: application, Instance: name,
				StateDir: filepath.Join(r.Dir, name), Workers: 1 + i%2, Session: r.Session, Report: 2 * time.Second, Query: true,
				Broken: r.Broken,
			},
			Env: []string{"GOMAXPROCS=1"}, LogPath: filepath.Join(r.Dir, name+".log"),
		}
		p.Lines = func(l testapp.Line) {
			r.figures.line(name, l)
			for i := range l.States {
				l.States[i].Source = "query of " + name
				r.history.Write(check.Event{State: &l.States[i]})
			}
		}
		processes = append(processes, p)
	}
	return processes
}

func (r *run) startReader(name string, background func(func(context.Context) error)) error {
	topics := map[string]testapp.Kind{}
	for topic, k := range r.topics {
		// The repartition topic may be purged behind the application, and so is followed and not
		// read again.
		again := name == final && (strings.HasPrefix(topic, application+"-") || topic == testapp.In)
		if k == testapp.Positions && name != check.LogReader || again {
			continue
		}
		topics[topic] = k
	}
	rd, err := testapp.NewReader(name, r.history, topics, application, kgo.SeedBrokers(r.cluster.Brokers()...))
	if err != nil {
		return err
	}
	r.readers[name] = rd
	background(rd.Run)
	return nil
}
