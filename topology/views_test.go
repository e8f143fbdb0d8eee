package topology_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

var (
	viewsIn  = topology.Topic[string, []byte]("in", schemas.StringView(), schemas.BytesView())
	viewsOut = topology.Topic("out", schemas.String(), schemas.Bytes())
)

type view = topology.Record[string, []byte]

// viewing is a topology that calls f for each record, and then passes it on.
func viewing(tb testing.TB, f func(r view)) *topology.Topology {
	tb.Helper()
	b := topology.NewBuilder("views", topology.DeadLetters("dead"))
	topology.From(b, viewsIn).Peek("see", func(r view) error {
		f(r)
		return nil
	}).Into(viewsOut)
	return mustBuild(tb, b)
}

// TestViewsReachOutputs: what is lent is written as it was read, also where only a part is lent and
// where keys or values are null.
func TestViewsReachOutputs(t *testing.T) {
	d := topologytest.Start(t, viewing(t, func(view) {}))
	in, out := topologytest.In(d, viewsIn), topologytest.Out(d, viewsOut)
	in.Pipe("anna", []byte("one"))
	in.Pipe("", []byte{})
	in.Pipe("bob", nil)
	out.Want(topologytest.KV("anna", []byte("one")), topologytest.KV("", []byte{}), topologytest.KV("bob", []byte(nil)))

	nullable := topology.Topic("in", topology.Nullable[string](schemas.StringView()), schemas.Bytes())
	b := topology.NewBuilder("views")
	topology.From(b, nullable).Into(topology.Topic("out", topology.Nullable(schemas.String()), schemas.Bytes()))
	d = topologytest.Start(t, mustBuild(t, b))
	nulls := topologytest.In(d, nullable)
	nulls.Pipe(topology.Some("anna"), []byte("one"))
	nulls.Pipe(topology.None[string](), []byte("two"))
	topologytest.Out(d, topology.Topic("out", topology.Nullable(schemas.String()), schemas.Bytes())).Want(
		topologytest.KV(topology.Some("anna"), []byte("one")), topologytest.KV(topology.None[string](), []byte("two")))
}

// TestViewsOfBadBytes: a view that cannot be made is a failure of the record, as with any codec.
func TestViewsOfBadBytes(t *testing.T) {
	d := topologytest.Start(t, viewing(t, func(view) {}))
	raw := topology.Topic("in", schemas.Bytes(), schemas.Bytes())
	topologytest.In(d, raw).Pipe([]byte("\xff"), []byte("one"))
	d.WantDead("in-source: poison")
}

// TestKeptViewIsFound: a function that keeps a view sees other bytes after its record.
func TestKeptViewIsFound(t *testing.T) {
	var key string
	var value, copied []byte
	d := topologytest.Start(t, viewing(t, func(r view) {
		key, value, copied = r.Key, r.Value, bytes.Clone(r.Value)
	}))
	topologytest.In(d, viewsIn).Pipe("anna", []byte("one"))
	if key == "anna" || string(value) == "one" {
		t.Errorf("the views that were kept are %q and %q still", key, value)
	}
	if string(copied) != "one" {
		t.Errorf("a copy that was kept is %q", copied)
	}
}

// TestChangedViewIsFound: a function that changes a view stops the task, whether its record fails or
// not.
func TestChangedViewIsFound(t *testing.T) {
	d, err := topologytest.New(viewing(t, func(r view) { r.Value[0] = 'X' }))
	if err != nil {
		t.Fatal(err)
	}
	err = topologytest.Pipe(d, viewsIn, "anna", []byte("one"))
	if err == nil || topology.ClassOf(err) != topology.Fatal || !strings.Contains(err.Error(), "lends") {
		t.Errorf("a changed view ends in %v", err)
	}
}

// TestViewsAndCopiesAreTwoSources: one source cannot both lend and copy.
func TestViewsAndCopiesAreTwoSources(t *testing.T) {
	b := topology.NewBuilder("views")
	topology.From(b, viewsIn).Into(viewsOut)
	topology.From(b, topology.Topic("in", schemas.String(), schemas.Bytes())).Into(topology.Topic("other", schemas.String(), schemas.Bytes()))
	if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), "read twice") {
		t.Errorf("a topic that is read with views and with copies: %v", err)
	}
}
