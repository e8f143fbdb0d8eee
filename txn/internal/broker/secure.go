package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"

	"github.com/onceward/onceward/txn/internal/keyfile"
	"github.com/onceward/onceward/txn/security"
)

// Secure is a checked [security.Config] with what its files hold. All clients of the process share
// one; it is safe for concurrent use. A nil *Secure is plain TCP without authentication.
type Secure struct {
	cfg       security.Config
	tls       *keyfile.Watched[*tls.Config] // nil without TLS
	mechanism sasl.Mechanism
}

// NewSecure checks the settings and reads every file that they name once, so that a mistake shows
// before anything is touched. Each mistake is a [*security.Error]. It returns nil for the zero
// Config.
func NewSecure(cfg security.Config, log *slog.Logger) (*Secure, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if !cfg.TLS.On() && cfg.SASL.Mechanism == "" {
		return nil, nil
	}
	s := &Secure{cfg: cfg}
	var errs []error
	var err error
	if cfg.TLS.On() {
		s.tls, err = keyfile.Watch(log, func() (*tls.Config, error) { return clientTLS(cfg.TLS) }, cfg.TLS.CAFile, cfg.TLS.CertFile, cfg.TLS.KeyFile)
		errs = append(errs, err)
	}
	s.mechanism, err = mechanismOf(cfg.SASL)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	return s, nil
}

// dialFunc makes a connection, as net.Dialer.DialContext does.
type dialFunc = func(ctx context.Context, network, host string) (net.Conn, error)

// dialTimeout bounds the making of a connection, and separately its TLS handshake. Requests to a
// broker whose host has vanished wait for it.
const dialTimeout = 5 * time.Second

// options returns what a client needs to connect over dial, the default dialer if nil.
func (s *Secure) options(dial dialFunc) []kgo.Opt {
	var opts []kgo.Opt
	if s != nil && s.mechanism != nil {
		opts = append(opts, kgo.SASL(s.mechanism))
	}
	if s != nil && s.tls != nil {
		if dial == nil {
			dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
		}
		dial = s.encrypt(dial)
	}
	if dial != nil {
		opts = append(opts, kgo.Dialer(dial))
	}
	return opts
}

// encrypt puts TLS over connections. The handshake is made here and not by the client, so that its
// failures can be told apart and so that rotated files count from the next connection on.
func (s *Secure) encrypt(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		cfg := s.tls.Current().Clone()
		if cfg.ServerName == "" {
			host, _, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, fmt.Errorf("broker address %q: %w", addr, err)
			}
			cfg.ServerName = host
		}
		raw, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(raw, cfg)
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = raw.Close() // the handshake's error says it all
			return nil, &handshakeError{addr: addr, name: cfg.ServerName, err: err}
		}
		return conn, nil
	}
}

// handshakeError is a TLS handshake with a broker that failed.
type handshakeError struct {
	addr, name string
	err        error
}

func (e *handshakeError) Error() string {
	return fmt.Sprintf("TLS handshake with %s: %v", e.addr, e.err)
}
func (e *handshakeError) Unwrap() error { return e.err }

// clientTLS reads the files of the settings.
func clientTLS(set security.TLS) (*tls.Config, error) {
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: set.ServerName,
		InsecureSkipVerify: set.InsecureSkipVerify, // only by a setting of that name
	}
	var err error
	if set.CAFile != "" {
		if cfg.RootCAs, err = keyfile.Authorities("TLS.CAFile", set.CAFile); err != nil {
			return nil, err
		}
	}
	if set.CertFile != "" {
		pair, err := keyfile.Pair(keyfile.Setting{Field: "TLS.CertFile", Name: set.CertFile}, keyfile.Setting{Field: "TLS.KeyFile", Name: set.KeyFile})
		if err != nil {
			return nil, err
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
