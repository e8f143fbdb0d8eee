package peers

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"github.com/onceward/onceward/txn/security"
)

// SecretMin is the least length of a shared secret.
const SecretMin = 16

const nonceSize = 32

// Security is how peers know that they belong together. The package documentation says what it
// protects.
type Security struct {
	// Server and Client are used for accepted and for dialled connections, both or none. The server
	// must require and verify the certificate of the client. A client without a ServerName verifies
	// the host of the address that it dials.
	Server, Client *tls.Config
	// Secret is the same at all instances.
	Secret security.Secret
}

// Check returns what is wrong with it.
func (s Security) Check() error {
	if (s.Server == nil) != (s.Client == nil) {
		return errors.New("TLS needs a configuration for accepted and one for dialled connections")
	}
	if s.Server != nil && s.Server.ClientAuth != tls.RequireAndVerifyClientCert {
		return errors.New("the TLS server must require and verify the certificate of its client")
	}
	if s.Client != nil && s.Client.InsecureSkipVerify && s.Client.VerifyConnection == nil {
		return errors.New("the TLS client verifies nothing")
	}
	if n := len(s.Secret.Reveal()); s.Secret.IsSet() && n < SecretMin {
		return fmt.Errorf("the shared secret has %d bytes, and %d are the least", n, SecretMin)
	}
	return nil
}

// none says that only loopback addresses may be used.
func (s Security) none() bool { return s.Server == nil && !s.Secret.IsSet() }

// encrypt puts TLS around a connection. The handshake is made by the first read or write.
func (s Security) encrypt(c net.Conn, dialled bool, address string) net.Conn {
	switch {
	case s.Server == nil:
		return c
	case !dialled:
		cfg := s.Server.Clone()
		cfg.MinVersion = tls.VersionTLS13
		return tls.Server(c, cfg)
	}
	cfg := s.Client.Clone()
	cfg.MinVersion = tls.VersionTLS13
	if host, _, err := net.SplitHostPort(address); err == nil && cfg.ServerName == "" {
		cfg.ServerName = host
	}
	return tls.Client(c, cfg)
}

// nonce returns the nonce of a hello; none without a secret.
func (s Security) nonce() []byte {
	if !s.Secret.IsSet() {
		return nil
	}
	n := make([]byte, nonceSize)
	_, _ = rand.Read(n) // it never fails
	return n
}

// keys are what a connection with a secret derives from it.
type keys struct {
	dialler, acceptor         []byte // proofs
	fromDialler, fromAcceptor *macKey
}

// derive makes the keys of a connection from the bodies of both hellos.
func (s Security) derive(dialler, acceptor []byte) keys {
	d, a := sha256.Sum256(dialler), sha256.Sum256(acceptor)
	label := func(text string) []byte {
		h := hmac.New(sha256.New, []byte(s.Secret.Reveal()))
		h.Write([]byte("onceward peers 1 " + text + "\x00"))
		h.Write(d[:])
		h.Write(a[:])
		return h.Sum(nil)
	}
	return keys{
		dialler: label("proof dialler"), acceptor: label("proof acceptor"),
		fromDialler: &macKey{key: label("frames dialler")}, fromAcceptor: &macKey{key: label("frames acceptor")},
	}
}

// macKey authenticates the frames of one direction. The nil key does nothing: there is no secret,
// or it is not proved yet.
type macKey struct {
	key     []byte
	counter uint64
}

func (k *macKey) size() int {
	if k == nil {
		return 0
	}
	return macSize
}

// next returns the MAC of the next frame.
func (k *macKey) next(data []byte) []byte {
	if k == nil {
		return nil
	}
	k.counter++
	h := hmac.New(sha256.New, k.key)
	h.Write(binary.BigEndian.AppendUint64(nil, k.counter))
	h.Write(data)
	return h.Sum(nil)
}

func (k *macKey) check(data, mac []byte) bool { return k == nil || hmac.Equal(k.next(data), mac) }
