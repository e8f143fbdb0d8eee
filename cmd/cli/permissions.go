package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/onceward/onceward/txn"
)

// permissionsCommand shows what a principal has to be allowed. It asks no cluster.
type permissionsCommand struct {
	named
	Repair bool `help:"Show also what finding and repairing hanging transactions takes (onceward transactions)."`
	outputFlag
}

func (c *permissionsCommand) Run(p *process) error {
	t, err := c.topology(p)
	if err != nil {
		return err
	}
	ps := txn.Permissions(t)
	if c.Repair {
		ps = append(ps, txn.RepairPermissions(t)...)
	}
	if c.Output == "json" {
		return writeJSON(p.out, permissionsOf(ps))
	}
	return writePermissions(p.out, ps)
}

// permission is the JSON form of a permission. Its fields are for programs and stay.
type permission struct {
	Operation string `json:"operation"`
	Resource  string `json:"resource"`
	Name      string `json:"name"`
	Pattern   string `json:"pattern"`
	Why       string `json:"why"`
}

func permissionsOf(ps []txn.Permission) []permission {
	out := make([]permission, len(ps))
	for i, p := range ps {
		out[i] = permission{p.Operation, p.Resource, p.Name, "literal", p.Why}
		if p.Prefix {
			out[i].Pattern = "prefixed"
		}
	}
	return out
}

// writePermissions writes the permissions for people.
func writePermissions(out io.Writer, ps []txn.Permission) error {
	var text strings.Builder
	text.WriteString("RESOURCE\tNAME\tPATTERN\tOPERATION\tFOR\n")
	for _, p := range permissionsOf(ps) {
		fmt.Fprintf(&text, "%s\t%s\t%s\t%s\t%s\n", p.Resource, p.Name, p.Pattern, p.Operation, p.Why)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(w, text.String()); err != nil {
		return err
	}
	return w.Flush()
}
