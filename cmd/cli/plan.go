package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/admin"
)

// planCommand says what the next start of a topology would mean. It changes nothing.
type planCommand struct {
	named
	clusterFlags
	StateDir string `placeholder:"DIR" env:"ONCEWARD_STATE_DIR" help:"State directory of an instance, which may run: it has the description of the topology that ran."`
	Before   string `placeholder:"FILE" help:"That description from a file instead, as describe --output json writes it."`
	outputFlag
}

// Help is for --help.
func (c *planCommand) Help() string {
	return "Compares the pipeline with the topics, stores and committed offsets of its application. A finding is safe, unknown," +
		" rebuild or refused. Unknown: the earlier program is unknown. Rebuild: the state would differ from the result of the" +
		" pipeline for its inputs. Refused: the pipeline would not start, or would lose or misread waiting records. Instances may run meanwhile. Ends" +
		" with 0 only if everything is safe."
}

// errNotSafe says that a plan has findings that need a decision.
var errNotSafe = errors.New("not everything is safe")

func (c *planCommand) Run(p *process) (err error) {
	if len(c.Brokers) == 0 {
		return usage("no broker is given; name at least one with --brokers")
	}
	t, err := c.topology(p)
	if err != nil {
		return err
	}
	before, err := c.before()
	if err != nil {
		return err
	}
	ctx, release := untilSignal(p.ctx, slog.New(slog.DiscardHandler))
	defer release()
	local, err := c.local(ctx)
	if err != nil {
		return err
	}
	if local != nil {
		defer func() { err = errors.Join(err, local.Close()) }()
	}
	client, err := c.connect(ctx, p.warnings())
	if err != nil {
		return err
	}
	defer client.Close()
	plan, err := client.Application(t).PlanWith(ctx, before, local)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		err = writeJSON(p.out, plan)
	} else {
		err = writePlan(p.out, plan)
	}
	if err == nil && plan.Judgement != admin.Safe {
		err = fmt.Errorf("%w: the worst of it is %s", errNotSafe, plan.Judgement)
	}
	return err
}

// local opens the state directory, nil if none is given, or it is one that the first start makes.
func (c *planCommand) local(ctx context.Context) (*admin.State, error) {
	if c.StateDir == "" {
		return nil, nil //nolint:nilnil // the plan goes by the cluster alone
	}
	s, err := admin.OpenState(ctx, c.StateDir)
	if isNewDirectory(c.StateDir, err) {
		return nil, nil //nolint:nilnil // as above
	}
	return s, err
}

// isNewDirectory reports whether a state directory cannot be opened because no instance has started
// on it: it is not there, or is empty.
func isNewDirectory(dir string, err error) bool {
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	entries, readErr := os.ReadDir(dir)
	return errors.Is(err, state.ErrForeign) && readErr == nil && len(entries) == 0
}

// before returns the description of the topology that ran, nil if nothing says what it is.
func (c *planCommand) before() (*graph.Description, error) {
	switch {
	case c.Before != "" && c.StateDir != "":
		return nil, usage("--before and --state-dir are both given; give one of them")
	case c.Before != "":
		text, err := os.ReadFile(c.Before)
		if err != nil {
			return nil, usage("--before: %w", err)
		}
		before, err := descriptionIn(text)
		if err != nil {
			return nil, usage("--before: %s: %w; give what describe --output json has written", c.Before, err)
		}
		return before, nil
	case c.StateDir == "":
		return nil, nil //nolint:nilnil // the plan says that it is not known
	}
	return lastDescription(c.StateDir)
}

// lastDescription returns the description of the topology that runs on a state directory, or ran
// last, nil if nothing says what it is.
func lastDescription(dir string) (*graph.Description, error) {
	identity, err := state.Identify(dir)
	if isNewDirectory(dir, err) {
		return nil, nil //nolint:nilnil // nothing has run there
	}
	if err != nil {
		return nil, err
	}
	text, err := state.ReadDescription(dir)
	if err != nil || text == nil {
		return nil, err
	}
	last, err := descriptionIn(text)
	if err != nil {
		return nil, fmt.Errorf("the description in %s: %w", dir, err)
	}
	if last.Fingerprint != identity.Fingerprint {
		return nil, nil //nolint:nilnil // a build that keeps no description has run since
	}
	return last, nil
}

func descriptionIn(text []byte) (*graph.Description, error) {
	var d graph.Description
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("it is no description of a topology: %w", err)
	}
	if d.Application == "" || d.Fingerprint == "" {
		return nil, errors.New("it is no description of a topology: it has no application or no fingerprint")
	}
	return &d, nil
}

// writePlan writes a plan for people, a paragraph for each judgement.
func writePlan(out io.Writer, plan admin.Plan) error {
	var text strings.Builder
	if len(plan.Members) > 0 {
		fmt.Fprintf(&text, "running now: %s\n", strings.Join(plan.Members, ", "))
	}
	last := admin.Judgement("")
	for _, f := range plan.Findings {
		if f.Judgement != last {
			fmt.Fprintf(&text, "%s\n", f.Judgement)
			last = f.Judgement
		}
		fmt.Fprintf(&text, "  %s %s: %s\n", f.Subject, f.Name, f.What)
		if f.Remedy != "" {
			fmt.Fprintf(&text, "    %s\n", f.Remedy)
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}
