package txn

import (
	"context"
	"time"

	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/console"
	"github.com/onceward/onceward/txn/internal/report"
)

// report is what this instance says of itself, to its own console and to those of others.
func (a *App) report() report.Report {
	notReady := a.notReady()
	if notReady == nil {
		notReady = []string{}
	}
	return report.Report{Status: a.Status(), NotReady: notReady, Counts: a.metrics.Counts(), Started: a.started}
}

// group is what the console shows of the application: this instance, and the others of the plan as
// they report over the connections of peers.
func (a *App) group(ctx context.Context) console.Group {
	a.mu.Lock()
	w, address := a.mu.watch, a.mu.peersAddress
	a.mu.Unlock()
	var g console.Group
	switch {
	case a.cfg.peersListen() == PeersOff:
		g.Alone = "Peers are off (--peers, Config.Peers), so that instances cannot ask each other."
	case w == nil:
		g.Alone = "This instance is not at work in the group, so that it does not know the others."
	case address == "":
		g.Alone = "This instance could not listen for peers, so that instances cannot ask each other."
	default:
		plan := w.plan.Load()
		if plan == nil {
			g.Alone = "This instance has no plan of the group yet, so that it does not know the others."
			break
		}
		g.Instances, g.Planned = w.askAll(ctx, plan), plannedTasks(plan)
	}
	g.Self = a.instanceID()
	own := a.report()
	g.Instances = append([]report.Instance{{Name: g.Self, State: report.Here, Taken: time.Now().UnixMilli(), Report: &own}}, g.Instances...)
	return g
}

// plannedTasks lists the tasks of a plan with the instances that have them.
func plannedTasks(plan *assign.Plan) (out []console.PlannedTask) {
	for _, o := range plan.Owners {
		out = append(out, console.PlannedTask{Task: o.Task, Instance: o.Member})
	}
	for _, m := range plan.Pending {
		out = append(out, console.PlannedTask{Task: m.Task, Instance: m.From, To: m.To})
	}
	return out
}

// askAll asks the other instances of a plan what they do.
func (w *watch) askAll(ctx context.Context, plan *assign.Plan) []report.Instance {
	own := w.in.dir.Instance()
	var names []string
	for _, e := range plan.Entries {
		if e.Member != own {
			names = append(names, e.Member)
		}
	}
	return w.others.Ask(ctx, names)
}

// askReport asks another instance what it does.
func (w *watch) askReport(ctx context.Context, instance string) (report.Report, error) {
	return report.Fetch(ctx, w.queries.client, "http://"+instance+reportPath, &Status{})
}
