// Package keyfile reads the files that settings of security name: certificates, their keys,
// authorities, passwords and secrets.
//
// # Contract
//
// Each function reads one setting, whose field and file an error names: it is a [*security.Error]
// and has no content in it. A [Watched] value is read again when its files have changed, as
// certificates do that are renewed under a running process.
//
// # Concurrency and failure
//
// Everything may be called from any goroutine. Changed files that cannot be used leave the last
// good value in use, with one line in the log: a rotation writes its files one after the other.
package keyfile

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/onceward/onceward/txn/security"
)

// bytesMax bounds a file: a wrong path may name anything.
const bytesMax = 1 << 20

// Read returns the content of a file, which is not empty.
func Read(field, name string) ([]byte, error) {
	wrong := func(err error) error {
		return &security.Error{Field: field, Reason: err.Error(), Err: err} // *fs.PathError names the file
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, wrong(err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, bytesMax+1))
	switch {
	case err != nil:
		return nil, wrong(err)
	case len(content) > bytesMax:
		return nil, wrong(fmt.Errorf("%s has more than %d bytes", name, bytesMax))
	case len(bytes.TrimSpace(content)) == 0:
		return nil, wrong(fmt.Errorf("%s is empty", name))
	}
	return content, nil
}

// Secret returns the text of a file without the line break that editors and echo leave at the end.
func Secret(field, name string) (security.Secret, error) {
	content, err := Read(field, name)
	return security.NewSecret(strings.TrimRight(string(content), "\r\n")), err
}

// Authorities returns the certificates of a file (PEM).
func Authorities(field, name string) (*x509.CertPool, error) {
	content, err := Read(field, name)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return nil, &security.Error{Field: field, Reason: name + " has no certificate in PEM form"}
	}
	return pool, nil
}

// Setting is a field and the file that it names.
type Setting struct{ Field, Name string }

// Pair returns a certificate with its key (PEM).
func Pair(certificate, key Setting) (tls.Certificate, error) {
	cert, err := Read(certificate.Field, certificate.Name)
	if err != nil {
		return tls.Certificate{}, err
	}
	private, err := Read(key.Field, key.Name)
	if err != nil {
		return tls.Certificate{}, err
	}
	if bytes.Contains(private, []byte("ENCRYPTED")) {
		return tls.Certificate{}, &security.Error{Field: key.Field, Reason: key.Name + " is encrypted: give a key without a pass phrase"}
	}
	pair, err := tls.X509KeyPair(cert, private)
	if err != nil {
		return tls.Certificate{}, &security.Error{Field: certificate.Field, Err: err,
			Reason: fmt.Sprintf("%s and the key in %s are no pair: %v", certificate.Name, key.Name, err)}
	}
	return pair, nil
}
