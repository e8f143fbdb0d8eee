package txn

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"

	"github.com/onceward/onceward/txn/internal/keyfile"
	"github.com/onceward/onceward/txn/internal/loopback"
	"github.com/onceward/onceward/txn/internal/peers"
	"github.com/onceward/onceward/txn/security"
)

// Peers is how the instances of an application watch each other. When an instance dies, its peers
// see its connections close, end its open transactions and remove its member from the group. Other
// instances continue with its partitions within a second, and not after the session timeout. An
// instance that still lives is fenced: it aborts, and joins the group again. No record is lost or
// doubled then.
//
// Instances that cannot reach each other notice a death by the session timeout and the transaction
// timeout, as without peers.
type Peers struct {
	// Listen is host:port where other instances connect; port 0 takes a free one. Instances read
	// rows of each other there ([Query]), and what the console shows: without SecretFile and certificates, every process of the
	// machine can do so. [PeersOff] turns peers off. Default is 127.0.0.1:0 if every address of Config.Brokers is a loopback address
	// and Config.Dialer is not set, else PeersOff.
	Listen string
	// Advertise is host:port that other instances dial. Default is the address of the listener. It
	// is required if that is no address of a host, as with 0.0.0.0. Port 0 stands for the port of
	// the listener.
	Advertise string
	// SecretFile holds a secret of at least 16 bytes that all instances share. A line break at its
	// end is not part of it.
	SecretFile string
	// CertFile and KeyFile have the certificate of the instance and its key, CAFile the authorities
	// that sign those of the others (PEM). The certificate has to be for the host of Advertise, and
	// for both sides of a connection. Without these files and without SecretFile only loopback
	// addresses are allowed. All these files are read again when they change, and count from the
	// next connection on.
	CertFile, KeyFile, CAFile string
}

// PeersOff as Peers.Listen turns peers off. The other settings of peers are then not used.
const PeersOff = "off"

// peersLoopback is where an instance listens for peers if its brokers are on loopback.
const peersLoopback = "127.0.0.1:0"

// peersListen returns where peers connect, PeersOff for nowhere.
func (c Config) peersListen() string {
	switch {
	case c.Peers.Listen != "":
		return c.Peers.Listen
	case c.peerNetwork.listen != nil:
		return peersLoopback
	case c.Dialer == nil && len(c.Brokers) > 0 && !slices.ContainsFunc(c.Brokers, func(b string) bool { return !loopback.Address(b) }):
		return peersLoopback
	}
	return PeersOff
}

func (c Config) validatePeers(wrong func(field, reason string)) {
	p, listen := c.Peers, c.peersListen()
	if p.Listen == PeersOff {
		return
	}
	for _, of := range [][2]string{{"Peers.Listen", p.Listen}, {"Peers.Advertise", p.Advertise}} {
		if _, _, err := net.SplitHostPort(of[1]); of[1] != "" && err != nil {
			wrong(of[0], fmt.Sprintf("%q is not host:port", of[1]))
		}
	}
	if files := []string{p.CertFile, p.KeyFile, p.CAFile}; strings.Join(files, "") != "" && (p.CertFile == "" || p.KeyFile == "" || p.CAFile == "") {
		wrong("Peers.CertFile", "CertFile, KeyFile and CAFile are needed together")
	}
	if listen == PeersOff && p != (Peers{}) {
		wrong("Peers.Listen", "there are settings for peers, and no address to listen at; give one, or turn peers off")
	}
}

// advertised returns the address that others dial.
func advertised(set string, listened net.Addr) (string, error) {
	address := cmp.Or(set, listened.String())
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", &ConfigError{"Peers.Advertise", fmt.Sprintf("%q is not host:port", address)}
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return "", &ConfigError{"Peers.Advertise", fmt.Sprintf("%s is no address that others can dial: set the one of this host", address)}
	}
	if _, own, err := net.SplitHostPort(listened.String()); err == nil && port == "0" {
		address = net.JoinHostPort(host, own)
	}
	return address, nil
}

// watchSecurity reads the files, again whenever they change.
func (p Peers) watchSecurity(log *slog.Logger) (func() peers.Security, error) {
	w, err := keyfile.Watch(log, p.security, p.SecretFile, p.CertFile, p.KeyFile, p.CAFile)
	if mistake, ok := errors.AsType[*security.Error](err); ok {
		return nil, &ConfigError{mistake.Field, mistake.Reason}
	}
	return w.Current, err
}

// security reads the files.
func (p Peers) security() (s peers.Security, err error) {
	if p.SecretFile != "" {
		if s.Secret, err = keyfile.Secret("Peers.SecretFile", p.SecretFile); err != nil {
			return s, err
		}
	}
	if p.CertFile != "" {
		own, err := keyfile.Pair(keyfile.Setting{Field: "Peers.CertFile", Name: p.CertFile}, keyfile.Setting{Field: "Peers.KeyFile", Name: p.KeyFile})
		if err != nil {
			return s, err
		}
		pool, err := keyfile.Authorities("Peers.CAFile", p.CAFile)
		if err != nil {
			return s, err
		}
		s.Server = &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		}
		s.Client = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, RootCAs: pool}
	}
	if err := s.Check(); err != nil {
		return s, &security.Error{Field: "Peers.SecretFile", Reason: err.Error(), Err: err} // the rest is made here
	}
	return s, nil
}
