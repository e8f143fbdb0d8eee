package cli

import (
	"encoding/json"
	"io"
)

// describeCommand shows a topology. It touches neither the cluster nor the disk.
type describeCommand struct {
	selection
	Output string `enum:"text,json,mermaid,dot" default:"text" placeholder:"FORMAT" env:"ONCEWARD_OUTPUT" help:"Form of the result: text for people, in the grammar of Kafka Streams, json for programs, mermaid for Markdown or dot for Graphviz; default ${default}."`
}

func (c *describeCommand) Run(p *process) error {
	t, err := c.topology(p)
	if err != nil {
		return err
	}
	switch c.Output {
	case "json":
		return writeJSON(p.out, t.Description())
	case "mermaid":
		_, err = io.WriteString(p.out, t.Description().Mermaid())
	case "dot":
		_, err = io.WriteString(p.out, t.Description().DOT())
	default:
		_, err = io.WriteString(p.out, t.Describe())
	}
	return err
}

// writeJSON writes v as one document that people can read too.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
