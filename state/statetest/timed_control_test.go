package statetest_test

import (
	"iter"
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
	"github.com/onceward/onceward/state/statetest"
)

// brokenTimed is the store below a view with one mechanism taken out.
type brokenTimed struct {
	state.Bytes
	scan    func(b state.Bytes, r state.Range) iter.Seq2[state.Entry, error]
	now     func(b state.Bytes) int64
	advance func(b state.Bytes, ms int64)
	del     func(b state.Bytes, key []byte) error
	// longer is added to the retention.
	longer int64
}

func (b *brokenTimed) Scan(r state.Range) iter.Seq2[state.Entry, error] {
	if b.scan != nil {
		return b.scan(b.Bytes, r)
	}
	return b.Bytes.Scan(r)
}

func (b *brokenTimed) StreamTime() int64 {
	if b.now != nil {
		return b.now(b.Bytes)
	}
	return b.Bytes.StreamTime()
}

func (b *brokenTimed) Advance(ms int64) {
	if b.advance != nil {
		b.advance(b.Bytes, ms)
		return
	}
	b.Bytes.Advance(ms)
}

func (b *brokenTimed) Delete(key []byte) error {
	if b.del != nil {
		return b.del(b.Bytes, key)
	}
	return b.Bytes.Delete(key)
}

var timedControls = map[string]func() *brokenTimed{
	"nothing": func() *brokenTimed { return &brokenTimed{} },
	"a row can be read for a millisecond too long": func() *brokenTimed {
		return &brokenTimed{longer: 1}
	},
	"longer keys pass for the one that is fetched": func() *brokenTimed {
		return &brokenTimed{scan: func(b state.Bytes, r state.Range) iter.Seq2[state.Entry, error] {
			return func(yield func(state.Entry, error) bool) {
				for e, err := range b.Scan(r) {
					if n := len(r.From); err == nil && len(r.To) == n+1 && n >= 16 && len(e.Key) > n {
						tail := e.Key[len(e.Key)-(n-4)%8:]
						e.Key = append(append([]byte{}, e.Key[:n-len(tail)]...), make([]byte, len(tail))...)
					}
					if !yield(e, err) {
						return
					}
				}
			}
		}}
	},
	"the oldest segments are not merged": func() *brokenTimed {
		newest := byte(0)
		return &brokenTimed{scan: func(b state.Bytes, r state.Range) iter.Seq2[state.Entry, error] {
			// Numbers are small: the last byte of one tells it from its neighbours.
			if newest = max(newest, r.From[3]); r.From[3]+2 <= newest {
				return func(func(state.Entry, error) bool) {}
			}
			return b.Scan(r)
		}}
	},
	"the stream time survives a revert": func() *brokenTimed {
		latest := int64(0)
		return &brokenTimed{
			now: func(b state.Bytes) int64 { return max(latest, b.StreamTime()) },
			advance: func(b state.Bytes, ms int64) {
				latest = max(latest, ms)
				b.Advance(ms)
			},
		}
	},
	"the stream time does not move": func() *brokenTimed {
		return &brokenTimed{advance: func(state.Bytes, int64) {}}
	},
	"reverse scans are not reversed": func() *brokenTimed {
		return &brokenTimed{scan: func(b state.Bytes, r state.Range) iter.Seq2[state.Entry, error] {
			r.Reverse = false
			return b.Scan(r)
		}}
	},
	"deletes are ignored": func() *brokenTimed {
		return &brokenTimed{del: func(state.Bytes, []byte) error { return nil }}
	},
	"the upper bound is exclusive": func() *brokenTimed {
		return &brokenTimed{scan: func(b state.Bytes, r state.Range) iter.Seq2[state.Entry, error] {
			if n := len(r.To); n == len(r.From)+1 {
				r.To = r.To[:n-1]
			}
			return b.Scan(r)
		}}
	},
}

// TestCheckFindsBrokenTimeStores: each of them fails for windows and for sessions, and the one that is not broken
// does not.
func TestCheckFindsBrokenTimeStores(t *testing.T) {
	const programs = 200
	generator := statetest.TimedPrograms(200)
	type kind struct {
		name  string
		check func(open func() (state.Database, error), control func() *brokenTimed, p statetest.TimedProgram) error
	}
	kinds := []kind{
		{"window", func(open func() (state.Database, error), control func() *brokenTimed, p statetest.TimedProgram) error {
			return statetest.CheckWindows(open, func(b state.Bytes, retention int64) state.Window[string, string] {
				broken := control()
				broken.Bytes = b
				return statetest.NewTextWindow(broken, retention+broken.longer)
			}, p)
		}},
		{"session", func(open func() (state.Database, error), control func() *brokenTimed, p statetest.TimedProgram) error {
			return statetest.CheckSessions(open, func(b state.Bytes, retention int64) state.Session[string, string] {
				broken := control()
				broken.Bytes = b
				return statetest.NewTextSession(broken, retention+broken.longer)
			}, p)
		}},
	}
	for _, kind := range kinds {
		for name, control := range timedControls {
			t.Run(kind.name+": "+name, func(t *testing.T) {
				for seed := range programs {
					db := memstore.New()
					open := func() (state.Database, error) { return unclosed{db}, nil }
					err := kind.check(open, control, generator.Example(seed))
					if err != nil && name == "nothing" {
						t.Fatal(err)
					}
					if err != nil {
						t.Logf("found by program %d: %.300v", seed, err)
						return
					}
					if name == "nothing" && seed == 20 {
						return
					}
				}
				t.Errorf("%d programs found no difference", programs)
			})
		}
	}
}

// unclosed is a database in memory that can be opened again.
type unclosed struct{ state.Database }

func (unclosed) Close() error { return nil }
