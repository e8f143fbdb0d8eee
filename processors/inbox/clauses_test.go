package inbox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// TestClauses is requirement K3: the contract follows from the options.
func TestClauses(t *testing.T) {
	for name, test := range map[string]struct {
		opts  []inbox.Option
		texts []string
	}{
		"plain": {nil, []string{
			"have the same key", "with the same payload", "without a limit", "what was accepted is a duplicate and",
			"without an id, or with one that cannot be read, has no effect",
		}},
		"globally": {
			[]inbox.Option{inbox.Globally(schemas.String(), schemas.JSON[Payment]())},
			[]string{"may have any key", "records of one key with several ids overtake each other"},
		},
		"globally, by id": {
			[]inbox.Option{inbox.Globally(schemas.String(), schemas.JSON[Payment]()), inbox.StayByID()},
			[]string{"overtake each other", "stays in the partition of its id"},
		},
		"retained": {[]inbox.Option{inbox.Retain(time.Hour)}, []string{"is late", "while it is known, and late after that"}},
		"archived": {[]inbox.Option{inbox.Retain(time.Hour), inbox.Archive(archiveTopic)}, []string{"an expired id is written to archive"}},
		"missing":  {[]inbox.Option{inbox.AllowMissingID()}, []string{"as often as it comes", "with an id that cannot be read has no effect"}},
		"business key": {
			[]inbox.Option{inbox.BusinessKey(byNote)},
			[]string{"a second one: the business key", "another id with a business key that was seen", "records with the same business key, have"},
		},
		"binary ids": {[]inbox.Option{inbox.ReadBinaryIDs()}, []string{"the id is bytes, and is stored and shown in hexadecimal digits"}},
		"payload without": {
			[]inbox.Option{inbox.PayloadWithout("id", "a\nb")}, []string{`without the members "id", "a\nb" of their JSON object`},
		},
		"payload as a codec": {[]inbox.Option{inbox.PayloadCodec(schemas.JSON[Payment]())}, []string{`as the codec "json`}},
		"payload hash": {
			[]inbox.Option{inbox.PayloadHash(func(payment) (hash [32]byte, err error) { return hash, nil })},
			[]string{"by a hash that the program makes"},
		},
	} {
		b := topology.NewBuilder("app", topology.DeadLetters("dead"))
		routed(b, test.opts...)
		topo, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		for _, c := range topo.Clauses() {
			said.WriteString(c.Text + "\n")
		}
		for _, text := range test.texts {
			if !strings.Contains(said.String(), text) {
				t.Errorf("%s: the contract does not say %q:\n%s", name, text, said.String())
			}
		}
		of := func(option string) bool { return strings.HasPrefix(name, option) }
		for text, says := range map[string]bool{
			"without a limit": !of("retained") && !of("archived"), "written to": of("archived"), "overtake": of("globally"),
			"without an id, or with one": !of("missing"), "hexadecimal": of("binary ids"),
			"stays in the partition": of("globally, by id"), "business key": of("business key"), "payloads are compared": of("payload"),
		} {
			if strings.Contains(said.String(), text) != says {
				t.Errorf("%s: that the contract says %q should be %t:\n%s", name, text, says, said.String())
			}
		}
	}
}
