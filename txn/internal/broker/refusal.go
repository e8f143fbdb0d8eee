package broker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// certainty says what another try of a failed first connection is worth.
type certainty uint8

const (
	// waiting: nobody is there yet; a cluster that is starting looks like that.
	waiting certainty = iota
	// likely: a connection that was closed without a word, which a restart of the broker does too.
	likely
	// silent: a connection on which nothing was said until the deadline. A broker without TLS waits
	// for the rest of what it takes for a request.
	silent
	// final: the other side has said no, or is not who it should be.
	final
)

// refusal explains a failed first connection in one line: what was found, and what to do.
func (s *Secure) refusal(err error) (string, certainty) {
	if text, sure := s.refusedHandshake(err); text != "" {
		return text, sure
	}
	if text, sure := s.refusedAuthentication(err); text != "" {
		return text, sure
	}
	encrypted := s != nil && s.tls != nil
	var remote *net.OpError
	switch {
	case errors.As(err, &remote) && remote.Op == "remote error": // a TLS alert; with TLS 1.3 it comes after the handshake
		return "the broker refused the client's certificate: set a certificate and key that its authority has signed", final
	case !encrypted && strings.Contains(err.Error(), "tls alert record"):
		return "the broker speaks TLS on this port: turn TLS on", final
	case !encrypted && (strings.Contains(err.Error(), "api versions negotiation") || isReset(err)):
		// The first request of all, which a broker without TLS answers also before any
		// authentication.
		return "the broker seems to speak TLS on this port: turn TLS on", likely
	case isClosed(err) && !encrypted && s.mechanismName() == "":
		return "the broker closed the connection at once: if this port wants TLS or SASL, set them", likely
	case isClosed(err) && s.mechanismName() == "":
		return "the broker closed the connection at once: if this port wants SASL, set it", likely
	case isClosed(err):
		return fmt.Sprintf("the broker closed the connection while %s authenticated with %s: check user and password, and that "+
			"this port wants SASL%s", s.principal(), s.mechanismName(), tlsHint(encrypted)), likely
	}
	return "check the addresses and that the cluster is up", waiting
}

func tlsHint(encrypted bool) string {
	if encrypted {
		return " over TLS"
	}
	return " without TLS"
}

func (s *Secure) refusedHandshake(err error) (string, certainty) {
	var (
		failed    *handshakeError
		unknown   x509.UnknownAuthorityError
		wrongName x509.HostnameError
		invalid   x509.CertificateInvalidError
		plain     tls.RecordHeaderError
		remote    *net.OpError
	)
	switch {
	case !errors.As(err, &failed):
		return "", waiting
	case errors.As(err, &unknown):
		return "the broker's certificate is not signed by a known authority: set the file of the authority that signs the brokers' " +
			"certificates", final
	case errors.As(err, &wrongName):
		return fmt.Sprintf("the broker's certificate is not for %s: use an address that is in the certificate, or set the server "+
			"name", failed.name), final
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the broker's certificate has expired or is not valid yet: renew it, and check the clocks", final
	case errors.As(err, &plain):
		return "the broker does not speak TLS on this port: use its TLS port, or turn TLS off", final
	case errors.As(err, &remote) && remote.Op == "remote error":
		return "the broker refused the TLS connection: check the client's certificate and key, and the broker's TLS versions", final
	case errors.Is(err, context.DeadlineExceeded):
		return "there was no answer to the TLS handshake in time: check that this port speaks TLS", silent
	case isClosed(err), isReset(err):
		return "there was no answer to the TLS handshake: check that this port speaks TLS", likely
	}
	return "the TLS connection could not be made", final
}

func (s *Secure) refusedAuthentication(err error) (string, certainty) {
	var told *authenticationError
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed), errors.As(err, &told):
		return fmt.Sprintf("the broker did not accept %s with %s: check user and secret, and that the broker knows the user for this "+
			"mechanism", s.principal(), s.mechanismName()), final
	case errors.Is(err, kerr.UnsupportedSaslMechanism):
		return fmt.Sprintf("the broker does not offer %s on this port: set a mechanism that it offers", s.mechanismName()), final
	case errors.Is(err, kerr.IllegalSaslState):
		return "the broker wants no authentication on this port, or another one: check the port and the mechanism", final
	}
	return "", waiting
}

// isClosed says that the other side ended the connection without an answer.
func isClosed(err error) bool {
	var first *kgo.ErrFirstReadEOF
	return errors.As(err, &first) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func (s *Secure) mechanismName() string {
	if s == nil {
		return ""
	}
	return string(s.cfg.SASL.Mechanism)
}

// principal says as whom this process tries to connect, as far as it knows.
func (s *Secure) principal() string {
	switch {
	case s != nil && s.cfg.SASL.User != "":
		return fmt.Sprintf("user %q", s.cfg.SASL.User)
	case s != nil && s.cfg.SASL.Mechanism != "":
		return "the token"
	case s != nil && s.cfg.TLS.CertFile != "":
		return "the client certificate"
	default:
		return "an anonymous client"
	}
}
