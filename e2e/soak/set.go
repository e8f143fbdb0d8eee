package soak

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/onceward/onceward/e2e/check"
	"github.com/onceward/onceward/e2e/soak/app"
)

// repartitionTopic is the topic between the two halves.
const repartitionTopic = application + "-" + app.ByOther + "-repartition"

// topicsOf returns the topics that are read, and how.
func topicsOf(soak app.Soak) map[string]Kind {
	topics := map[string]Kind{
		app.In: Inputs, app.Copied: Inputs, app.Repeated: Inputs, app.Dead: Inputs, app.Balances: Totals, app.Counts: Totals,
		repartitionTopic: Inputs, check.OffsetsTopic: Positions,
	}
	for _, sub := range soak.Topology.Subtopologies() {
		for _, st := range sub.Stores {
			topics[st.ChangelogTopic] = Changelog
		}
	}
	return topics
}

// spec says to the checker what the topology does.
func spec(soak app.Soak) check.Spec {
	s := check.Spec{
		Input: app.In, Repartition: repartitionTopic, OpenMax: openMax,
		Outputs: []check.Output{
			{Topic: app.Copied, From: app.In, Which: check.Deliveries, By: check.ByPartition},
			{Topic: app.Repeated, From: app.In, Which: check.Repeats, By: check.ByPartition},
			{Topic: app.Dead, From: app.In, Which: check.Poison, By: check.ByPartition},
			{Topic: app.Balances, From: app.In, Which: check.Messages, By: check.ByKey, Totals: true, Store: soak.Balances.Name()},
			{Topic: repartitionTopic, From: app.In, Which: check.Messages, By: check.ByOther, Store: app.Inbox},
			{Topic: app.Counts, From: repartitionTopic, Which: check.Messages, By: check.ByOther, Totals: true, Store: app.CountsStore},
		},
	}
	for _, sub := range soak.Topology.Subtopologies() {
		for _, st := range sub.Stores {
			d := check.Store{Name: st.Name, Changelog: st.ChangelogTopic, From: app.In, By: check.ByKey}
			switch st.Name {
			case app.Inbox:
				d.IDs = true
			case app.CountsStore:
				d.From, d.By = repartitionTopic, check.ByOther
			case soak.Balances.Name():
			default:
				d.Opaque = true
			}
			s.Stores = append(s.Stores, d)
		}
	}
	return s
}

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

// awaitInternalTopics waits until the application has made its topics and committed something: a reader of a topic that is not there
// yet would wait for its own metadata's next refresh.
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
func (r *run) newProcesses() []*Process {
	processes := make([]*Process, 0, r.Instances+1)
	for i := range r.Instances + 1 {
		name := fmt.Sprintf("i%d", i+1)
		p := &Process{
			Flags: app.Flags{
				Topology: "soak", Brokers: strings.Join(r.cluster.Brokers(), ","), Application: application, Instance: name,
				StateDir: filepath.Join(r.Dir, name), Workers: 1 + i%2, Session: r.Session, Report: 2 * time.Second, Query: true,
			},
			Env: append([]string{"GOMAXPROCS=1"}, r.Env...), LogPath: filepath.Join(r.Dir, name+".log"),
		}
		p.Lines = func(l app.Line) {
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
	topics := map[string]Kind{}
	for topic, k := range r.topics {
		// The repartition topic may be purged behind the application, and so is followed and not read again.
		again := name == final && (strings.HasPrefix(topic, application+"-") || topic == app.In)
		if k == Positions && name != check.LogReader || again {
			continue
		}
		topics[topic] = k
	}
	rd, err := NewReader(name, r.cluster.Brokers(), r.history, topics, application)
	if err != nil {
		return err
	}
	r.readers[name] = rd
	background(rd.Run)
	return nil
}
