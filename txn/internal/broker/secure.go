package broker

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"

	"github.com/onceward/onceward/txn/security"
)

// Secure is a checked [security.Config] with what its files hold. All clients of the process share one; it is safe for concurrent
// use. A nil *Secure is plain TCP without authentication.
type Secure struct {
	cfg       security.Config
	files     *tlsFiles // nil without TLS
	mechanism sasl.Mechanism
}

// NewSecure checks the settings and reads every file that they name once, so that a mistake shows before anything is touched. Each
// mistake is a [*security.Error]. It returns nil for the zero Config.
func NewSecure(cfg security.Config, log *slog.Logger) (*Secure, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if !cfg.TLS.On() && cfg.SASL.Mechanism == "" {
		return nil, nil
	}
	s := &Secure{cfg: cfg}
	var errs []error
	if cfg.TLS.On() {
		s.files = &tlsFiles{cfg: cfg.TLS, log: log}
		errs = append(errs, s.files.load())
	}
	var err error
	s.mechanism, err = mechanismOf(cfg.SASL)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	return s, nil
}

// dialFunc makes a connection, as net.Dialer.DialContext does.
type dialFunc = func(ctx context.Context, network, host string) (net.Conn, error)

// dialTimeout bounds the making of a connection, and separately its TLS handshake. Requests to a broker whose host has vanished wait for it.
const dialTimeout = 5 * time.Second

// options returns what a client needs to connect over dial, the default dialer if nil.
func (s *Secure) options(dial dialFunc) []kgo.Opt {
	var opts []kgo.Opt
	if s != nil && s.mechanism != nil {
		opts = append(opts, kgo.SASL(s.mechanism))
	}
	if s != nil && s.files != nil {
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

// encrypt puts TLS over connections. The handshake is made here and not by the client, so that its failures can be told apart and so
// that rotated files count from the next connection on.
func (s *Secure) encrypt(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		cfg := s.files.current().Clone()
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

// tlsFiles turns files into a TLS configuration, anew when one of them has changed.
type tlsFiles struct {
	cfg security.TLS
	log *slog.Logger

	mu     sync.Mutex
	stamps [3]fileStamp
	tls    *tls.Config
}

// fileStamp tells whether a file has changed. Symbolic links are followed: Kubernetes swaps the link of a mounted secret.
type fileStamp struct {
	size     int64
	modified time.Time
}

func (f *tlsFiles) stamp() (stamps [3]fileStamp) {
	for i, name := range []string{f.cfg.CAFile, f.cfg.CertFile, f.cfg.KeyFile} {
		if info, err := os.Stat(name); name != "" && err == nil {
			stamps[i] = fileStamp{info.Size(), info.ModTime()}
		}
	}
	return stamps
}

// load reads the files.
func (f *tlsFiles) load() error {
	stamps := f.stamp() // before the files: what changes meanwhile is read again
	cfg, err := f.read()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stamps = stamps // also after a failure, so that it is told once and not with every connection
	if err != nil {
		return err
	}
	f.tls = cfg
	return nil
}

// current returns the configuration as of the files now, or the last good one while they cannot be used: a rotation writes its files
// one after the other.
func (f *tlsFiles) current() *tls.Config {
	stamp := f.stamp() // which asks the file system, and nobody waits for that
	f.mu.Lock()
	changed := f.stamps != stamp
	f.mu.Unlock()
	if changed {
		if err := f.load(); err != nil {
			f.log.Warn("changed TLS files cannot be used, the last good ones stay in use", "error", err)
		} else {
			f.log.Info("changed TLS files are in use for new connections")
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tls
}

func (f *tlsFiles) read() (*tls.Config, error) {
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: f.cfg.ServerName,
		InsecureSkipVerify: f.cfg.InsecureSkipVerify, // only by a setting of that name
	}
	if f.cfg.CAFile != "" {
		pem, err := readFile("TLS.CAFile", f.cfg.CAFile)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, &security.Error{Field: "TLS.CAFile", Reason: f.cfg.CAFile + " has no certificate in PEM form"}
		}
	}
	if f.cfg.CertFile == "" {
		return cfg, nil
	}
	cert, err := readFile("TLS.CertFile", f.cfg.CertFile)
	if err != nil {
		return nil, err
	}
	key, err := readFile("TLS.KeyFile", f.cfg.KeyFile)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(key, []byte("ENCRYPTED")) {
		return nil, &security.Error{Field: "TLS.KeyFile", Reason: f.cfg.KeyFile + " is encrypted: give a key without a pass phrase"}
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, &security.Error{Field: "TLS.CertFile", Err: err,
			Reason: fmt.Sprintf("%s and the key in %s are no pair: %v", f.cfg.CertFile, f.cfg.KeyFile, err)}
	}
	cfg.Certificates = []tls.Certificate{pair}
	return cfg, nil
}

// fileBytesMax bounds files with certificates and secrets: a wrong path may name anything.
const fileBytesMax = 1 << 20

// readFile reads a file that a setting names.
func readFile(field, name string) ([]byte, error) {
	wrong := func(err error) error {
		return &security.Error{Field: field, Reason: err.Error(), Err: err} // *fs.PathError names the file
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, wrong(err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, fileBytesMax+1))
	switch {
	case err != nil:
		return nil, wrong(err)
	case len(content) > fileBytesMax:
		return nil, wrong(fmt.Errorf("%s has more than %d bytes", name, fileBytesMax))
	case len(strings.TrimSpace(string(content))) == 0:
		return nil, wrong(fmt.Errorf("%s is empty", name))
	}
	return content, nil
}
