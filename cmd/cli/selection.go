package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/onceward/onceward/cmd/internal/yamldoc"
	"github.com/onceward/onceward/cmd/pipeline"
	"github.com/onceward/onceward/topology"
)

// selection says which topology a command is about.
type selection struct {
	File     string `short:"f" placeholder:"FILE" env:"ONCEWARD_FILE" help:"YAML file with the pipeline; - is the standard input."`
	Topology string `placeholder:"NAME" env:"ONCEWARD_TOPOLOGY" help:"Topology of this program; needed if it has several."`
}

// named is a selection under an application id.
type named struct {
	selection
	Application string `placeholder:"ID" env:"ONCEWARD_APPLICATION" help:"Application id; default is the name of the pipeline."`
}

// topology returns the selected topology under the application id.
func (n named) topology(p *process) (*topology.Topology, error) {
	t, err := n.selection.topology(p)
	if err != nil || n.Application == "" {
		return t, err
	}
	if t, err = t.WithApplication(n.Application); err != nil {
		return nil, &usageError{err}
	}
	return t, nil
}

// stdinName stands for the standard input in mistakes.
const stdinName = "<stdin>"

func (s selection) topology(p *process) (*topology.Topology, error) {
	switch {
	case s.File != "" && s.Topology != "":
		return nil, usage("--file and --topology are both given; give one of them")
	case s.File == "-":
		src, err := yamldoc.ReadAll(p.in)
		if err != nil {
			return nil, fmt.Errorf("reading the pipeline from the standard input: %w", err)
		}
		return pipeline.Parse(stdinName, src)
	case s.File != "":
		t, err := pipeline.Load(s.File)
		if _, unreadable := errors.AsType[*fs.PathError](err); unreadable {
			return nil, usage("%w; check the path given with --file", err)
		}
		return t, err
	case len(p.topologies) == 0 && s.Topology == "":
		return nil, usage("no pipeline is given; name its file with --file")
	}
	return s.builtIn(p)
}

// builtIn picks one of the program's own topologies.
func (s selection) builtIn(p *process) (*topology.Topology, error) {
	var names []string
	for _, t := range p.topologies {
		if t.Name() == s.Topology || s.Topology == "" && len(p.topologies) == 1 {
			return t, nil
		}
		names = append(names, t.Name())
	}
	switch {
	case len(names) == 0:
		return nil, usage("this program has no topologies of its own; name the file of a pipeline with --file")
	case s.Topology == "":
		return nil, usage("this program has several topologies; choose one with --topology: %s",
			strings.Join(names, ", "))
	}
	return nil, usage("there is no topology %q; choose one with --topology: %s", s.Topology,
		strings.Join(names, ", "))
}
