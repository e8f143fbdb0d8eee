package schemas_test

import (
	"bytes"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/codectest"
)

func TestViewConformance(t *testing.T) {
	codectest.Run[[]byte](t, schemas.BytesView(), []byte{}, []byte("\x00\xff"+codectest.Canary))
	codectest.Run[string](t, schemas.StringView(), "", "key", codectest.Canary, "Zürich 東京 \U0001f6eb\x00")
	codectest.Refuses[string](t, schemas.StringView(), codectest.Canary+"\xff")
}

// TestViewsShareMemory: a view has the bytes that it was read from, no room behind them, and costs
// no allocation.
func TestViewsShareMemory(t *testing.T) {
	buffer := []byte("value|next")
	b, err := schemas.BytesView().Lend(buffer[:5])
	if err != nil || &b[0] != &buffer[0] || len(b) != 5 || cap(b) != 5 {
		t.Errorf("the view is %q with room for %d, %v", b, cap(b), err)
	}
	s, err := schemas.StringView().Lend(buffer[:5])
	if err != nil || s != "value" {
		t.Errorf("the view is %q, %v", s, err)
	}
	if buffer[0] = 'V'; s != "Value" || string(b) != "Value" {
		t.Errorf("the views %q and %q do not share the memory", s, b)
	}
	if b, err := schemas.BytesView().Lend(nil); b == nil || len(b) != 0 || err != nil {
		t.Errorf("the view of nil is %#v, %v", b, err)
	}
	if s, err := schemas.StringView().Lend(nil); s != "" || err != nil {
		t.Errorf("the view of nil is %q, %v", s, err)
	}
	allocs := testing.AllocsPerRun(100, func() {
		b, err := schemas.BytesView().Lend(buffer)
		s, errOfString := schemas.StringView().Lend(buffer)
		if err != nil || errOfString != nil || !bytes.Equal(b, buffer) || len(s) != len(b) {
			t.Fatal("a view is not what it was read from")
		}
	})
	if allocs > 0 {
		t.Errorf("two views cost %v allocations", allocs)
	}
}

func TestViewNames(t *testing.T) {
	if b, s := schemas.BytesView().Name(), schemas.StringView().Name(); b != schemas.Bytes().Name() || s != schemas.String().Name() {
		t.Errorf("the names are %q and %q", b, s)
	}
}
