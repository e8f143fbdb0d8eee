package virtual

import (
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// controls are the control functions of this package. kfake gets one control function for each kind
// of request; that one calls the functions of this package in the order in which they were added,
// until one answers the request.
//
// They share a control function because a request may sleep in one only. If it sleeps in a second
// one, kfake v0.0.0-20260918 reads and writes the state of the sleeping request without a lock. It
// can lose that sleep, and then the request is never answered.
type controls struct {
	c  *kfake.Cluster
	mu sync.Mutex
	// byKey is copied when a function is added, because requests are under way then.
	byKey map[kmsg.Key][]control
}

// control answers a request, changes it, or only sees it. It may sleep, several times.
type control func(kmsg.Request) (resp kmsg.Response, handled bool)

func newControls(c *kfake.Cluster) *controls {
	return &controls{c: c, byKey: map[kmsg.Key][]control{}}
}

// add has f see all requests of a key from now on.
func (cs *controls) add(key kmsg.Key, f control) {
	cs.mu.Lock()
	first := len(cs.byKey[key]) == 0
	cs.byKey[key] = append(slices.Clone(cs.byKey[key]), f)
	cs.mu.Unlock()
	if !first {
		return
	}
	cs.c.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cs.c.KeepControl()
		cs.mu.Lock()
		fs := cs.byKey[key]
		cs.mu.Unlock()
		for _, f := range fs {
			if resp, handled := f(req); handled {
				return resp, nil, true
			}
		}
		return nil, nil, false
	})
}
