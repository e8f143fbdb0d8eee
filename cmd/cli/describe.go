package cli

import (
	"encoding/json"
	"io"

	"github.com/onceward/onceward/topology"
)

// describeCommand shows a topology. It touches neither the cluster nor the disk.
type describeCommand struct {
	selection
	outputFlag
}

func (c *describeCommand) Run(p *process) error {
	t, err := c.topology(p)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return writeJSON(p.out, descriptionOf(t))
	}
	_, err = io.WriteString(p.out, t.Describe())
	return err
}

// topologyDescription is the JSON form of a topology. Its fields are for programs and stay.
type topologyDescription struct {
	Name            string                   `json:"name"`
	Application     string                   `json:"application"`
	Fingerprint     string                   `json:"fingerprint"`
	DeadLetterTopic string                   `json:"dead_letter_topic,omitempty"`
	Topics          []string                 `json:"topics"`
	InternalTopics  []string                 `json:"internal_topics"`
	Subtopologies   []subtopologyDescription `json:"subtopologies"`
}

type subtopologyDescription struct {
	Name    string              `json:"name"`
	Sources []sourceDescription `json:"sources"`
	Stores  []storeDescription  `json:"stores"`
	Sinks   []string            `json:"sinks"`
}

type sourceDescription struct {
	Topic       string `json:"topic"`
	Repartition bool   `json:"repartition"`
	Start       string `json:"start"`
	KeyFormat   string `json:"key_format"`
	ValueFormat string `json:"value_format"`
}

type storeDescription struct {
	Name           string `json:"name"`
	Layout         string `json:"layout"`
	ChangelogTopic string `json:"changelog_topic"`
	KeyFormat      string `json:"key_format"`
	ValueFormat    string `json:"value_format"`
}

func descriptionOf(t *topology.Topology) topologyDescription {
	d := topologyDescription{
		Name: t.Name(), Application: t.Application(), Fingerprint: t.Fingerprint(),
		DeadLetterTopic: t.DeadLetterTopic(), Topics: t.Topics(),
		// Empty lists and not null, so that programs need no special case.
		InternalTopics: append([]string{}, t.InternalTopics()...),
	}
	for _, sub := range t.Subtopologies() {
		s := subtopologyDescription{
			Name: sub.Name, Stores: []storeDescription{}, Sinks: append([]string{}, sub.Sinks...),
		}
		for _, source := range sub.Sources {
			s.Sources = append(s.Sources, sourceDescription{
				Topic: source.Topic, Repartition: source.Repartition, Start: source.Start.String(),
				KeyFormat: source.KeyFormat, ValueFormat: source.ValueFormat,
			})
		}
		for _, store := range sub.Stores {
			s.Stores = append(s.Stores, storeDescription{
				Name: store.Name, Layout: store.Layout.String(), ChangelogTopic: store.ChangelogTopic,
				KeyFormat: store.KeyFormat, ValueFormat: store.ValueFormat,
			})
		}
		d.Subtopologies = append(d.Subtopologies, s)
	}
	return d
}

// writeJSON writes v as one document that people can read too.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
