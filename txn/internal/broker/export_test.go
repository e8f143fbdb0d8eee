package broker

import "time"

// ShortenHandshake is for brokers that never answer one.
func (s *Secure) ShortenHandshake(to time.Duration) {
	if s != nil {
		s.handshake = to
	}
}
