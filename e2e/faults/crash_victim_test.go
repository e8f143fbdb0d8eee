//go:build unix

package faults

import "github.com/onceward/onceward/e2e/instance"

// victim is a life with points armed.
type victim struct {
	instance.Victim
	log *instance.Log
	// hits are closed one after the other, when the lines that tell of them have been logged.
	hits []chan struct{}
}

// startArmed begins a life with points armed. The lines tell of hits.
func (s *crashScene) startArmed(settings crashSettings, arm string, lines ...string) *victim {
	s.t.Helper()
	log := instance.NewLog(s.t, "the armed life")
	hits := log.Await(lines...)
	return &victim{instance.StartVictim(s.t, s.cluster, crashProgram, s.hostName(settings), settings, arm, log), log, hits}
}
