package topology_test

import (
	"bytes"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// A source that lends reads records without copying them. A function that keeps a value clones it.
func ExampleFrom_views() {
	said := topology.Topic[string, []byte]("said", schemas.StringView(), schemas.BytesView())
	b := topology.NewBuilder("views")
	loud := topology.From(b, said).Filter("loud", func(r topology.Record[string, []byte]) (bool, error) {
		return bytes.HasSuffix(r.Value, []byte("!")), nil
	})
	topology.MapValues(loud, "text", func(v []byte) (string, error) { return string(v), nil }).Into(heard)
	run(b, heard, send(said, "ann", []byte("hello")), send(said, "bob", []byte("HEY!")))
	// Output: bob HEY!
}
