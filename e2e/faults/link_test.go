package faults

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/e2e/proxy"
	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/txn"
)

// link is what is between the application and the brokers. Every rule has to have matched a frame
// by the end of the test.
type link interface {
	Add(m proxy.Match, a proxy.Action) *proxy.Rule
	// Partition lets nothing pass in the directions, by default in both, until Heal.
	Partition(directions ...proxy.Direction)
	Heal()
	// reset resets all connections, as soon as there are any: after a reset the client backs off.
	reset(ctx context.Context) error
	// through returns the configuration of an application behind the link.
	through(cfg txn.Config) txn.Config
}

func newLink(t *testing.T, c *cluster.Cluster) link {
	t.Helper()
	if c.Kind() == cluster.KindVirtual {
		l := &hostLink{cluster: c, host: c.Network().Host(applicationHost)}
		t.Cleanup(func() {
			if err := l.unmatched(); err != nil {
				t.Error(err)
			}
		})
		return l
	}
	p, err := proxy.Start(c.Brokers()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return proxyLink{p}
}

// proxyLink is a proxy on real sockets.
type proxyLink struct{ *proxy.Proxy }

func (l proxyLink) through(cfg txn.Config) txn.Config {
	cfg.Brokers = l.Brokers()
	return cfg
}

func (l proxyLink) reset(ctx context.Context) error {
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for l.ResetAll() == 0 {
		select {
		case <-again.C:
		case <-ctx.Done():
			return errors.New("the application has opened no connection that could be reset")
		}
	}
	return nil
}

// applicationHost is the host of all lives of an application on virtual time.
const applicationHost = "application"

// hostLink is a host of a virtual network.
type hostLink struct {
	cluster *cluster.Cluster
	host    *virtual.Host
	rules   []*proxy.Rule
	held    []*proxy.Rule // by Partition
}

func (l *hostLink) through(cfg txn.Config) txn.Config {
	return instance.On(l.cluster, applicationHost, cfg)
}

func (l *hostLink) Add(m proxy.Match, a proxy.Action) *proxy.Rule {
	r := l.host.Add(m, a)
	l.rules = append(l.rules, r)
	return r
}

func (l *hostLink) Partition(directions ...proxy.Direction) {
	if len(directions) == 0 {
		l.host.Stall()
	}
	for _, d := range directions {
		l.held = append(l.held, l.Add(proxy.Match{Key: proxy.AnyKey, Direction: d}, proxy.Hold()))
	}
}

func (l *hostLink) Heal() {
	l.host.Resume()
	for _, r := range l.held {
		r.Lift()
	}
	l.held = nil
}

func (l *hostLink) reset(ctx context.Context) error {
	connected := l.Add(proxy.Match{Key: proxy.AnyKey, Direction: proxy.ToBroker}, proxy.Pass())
	defer connected.Lift()
	if err := connected.AwaitMatched(ctx, 1); err != nil {
		return err
	}
	l.host.Cut()
	return nil
}

// unmatched returns an error for every rule that has matched nothing: its fault has not happened.
func (l *hostLink) unmatched() error {
	var errs []error
	for _, r := range l.rules {
		if r.Counts().Matched == 0 {
			errs = append(errs, fmt.Errorf("rule %q: %w", r, proxy.ErrUnmatched))
		}
	}
	return errors.Join(errs...)
}
