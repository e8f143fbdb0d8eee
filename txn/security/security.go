package security

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Config is how to reach the brokers: over TLS or not, and as whom.
type Config struct {
	TLS  TLS
	SASL SASL
}

// TLS is the encryption of connections and the check of the brokers' certificates. It is on as soon
// as any field is set.
type TLS struct {
	// Enabled turns TLS on with the system's certificate authorities, where no other field is
	// needed.
	Enabled bool
	// CAFile has the certificates (PEM) of the authorities that sign the brokers' certificates,
	// instead of the system's.
	CAFile string
	// CertFile and KeyFile have the client's certificate and its key (PEM, not encrypted), for
	// brokers that ask for one.
	CertFile, KeyFile string
	// ServerName is the name that the brokers' certificates must have, instead of the host of each
	// broker's address.
	ServerName string
	// InsecureSkipVerify accepts every certificate: whoever is in between can read and change
	// everything.
	InsecureSkipVerify bool
}

// On says whether connections are encrypted.
func (t TLS) On() bool { return t != TLS{} }

// Mechanism is a way to authenticate, by its name in SASL.
type Mechanism string

// The mechanisms.
const (
	Plain       Mechanism = "PLAIN"
	ScramSHA256 Mechanism = "SCRAM-SHA-256"
	ScramSHA512 Mechanism = "SCRAM-SHA-512"
	OAuthBearer Mechanism = "OAUTHBEARER" // KIP-255; the token is fetched by somebody else
)

// SASL is the authentication of the client. It is on as soon as Mechanism is set.
type SASL struct {
	Mechanism Mechanism
	// User and one of Password and PasswordFile are for PLAIN and SCRAM. A line break at the end of
	// the file is not part of the password.
	User         string
	Password     Secret
	PasswordFile string
	// Token or TokenFile is for OAUTHBEARER: a function that returns a token which is valid now,
	// called for each authentication from any goroutine, or a file that somebody else keeps fresh.
	Token     func(context.Context) (Secret, error)
	TokenFile string
	// InsecureWithoutTLS allows PLAIN and OAUTHBEARER on connections that are not encrypted.
	InsecureWithoutTLS bool
}

// Error is a setting that cannot be used.
type Error struct {
	// Field is its path in Config, such as "TLS.CAFile".
	Field string
	// Reason says what is wrong and what to do.
	Reason string
	// Err is the cause, if there is one, such as what the file system said. Reason contains it.
	Err error
}

func (e *Error) Error() string { return e.Field + ": " + e.Reason }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Validate returns every mistake that can be seen without looking at files, each an [*Error],
// joined.
func (c Config) Validate() error {
	var errs []error
	wrong := func(field, reason string, args ...any) {
		errs = append(errs, &Error{Field: field, Reason: fmt.Sprintf(reason, args...)})
	}
	switch {
	case c.TLS.CertFile != "" && c.TLS.KeyFile == "":
		wrong("TLS.KeyFile", "a certificate needs its key: name the file of the key to %s", c.TLS.CertFile)
	case c.TLS.CertFile == "" && c.TLS.KeyFile != "":
		wrong("TLS.CertFile", "a key needs its certificate: name the file of the certificate to %s", c.TLS.KeyFile)
	}
	if c.TLS.InsecureSkipVerify && (c.TLS.CAFile != "" || c.TLS.ServerName != "") {
		wrong("TLS.InsecureSkipVerify", "nothing is verified, although an authority or a server name is given: set the one or the other")
	}
	c.SASL.validate(c.TLS.On(), wrong)
	return errors.Join(errs...)
}

func (s SASL) validate(encrypted bool, wrong func(field, reason string, args ...any)) {
	switch s.Mechanism {
	case "":
		if s.User != "" || s.hasPassword() || s.hasToken() {
			wrong("SASL.Mechanism", "a user, a password or a token is given and no mechanism: set one of %s", mechanisms)
		}
		return
	case Plain, ScramSHA256, ScramSHA512:
		s.validatePassword(wrong)
	case OAuthBearer:
		s.validateToken(wrong)
	default:
		wrong("SASL.Mechanism", "%q is none of %s", s.Mechanism, mechanisms)
		return
	}
	if (s.Mechanism == Plain || s.Mechanism == OAuthBearer) && !encrypted && !s.InsecureWithoutTLS {
		wrong("SASL.Mechanism", "%s sends the secret itself and the connection is not encrypted: turn TLS on, or use SCRAM", s.Mechanism)
	}
}

func (s SASL) validatePassword(wrong func(field, reason string, args ...any)) {
	if s.User == "" {
		wrong("SASL.User", "%s needs a user", s.Mechanism)
	}
	switch {
	case !s.hasPassword():
		wrong("SASL.PasswordFile", "%s needs a password", s.Mechanism)
	case s.Password.IsSet() && s.PasswordFile != "":
		wrong("SASL.PasswordFile", "there are two passwords, one of them in a file: give one")
	}
	if s.hasToken() {
		wrong("SASL.TokenFile", "a token is for %s and not for %s", OAuthBearer, s.Mechanism)
	}
}

func (s SASL) validateToken(wrong func(field, reason string, args ...any)) {
	switch {
	case !s.hasToken():
		wrong("SASL.TokenFile", "%s needs a token: name the file that has it", s.Mechanism)
	case s.Token != nil && s.TokenFile != "":
		wrong("SASL.TokenFile", "there are two sources of tokens, a function and a file: give one")
	}
	if s.User != "" || s.hasPassword() {
		wrong("SASL.User", "user and password are not for %s: the token says who it is", s.Mechanism)
	}
}

func (s SASL) hasPassword() bool { return s.Password.IsSet() || s.PasswordFile != "" }
func (s SASL) hasToken() bool    { return s.Token != nil || s.TokenFile != "" }

var mechanisms = strings.Join([]string{string(Plain), string(ScramSHA256), string(ScramSHA512), string(OAuthBearer)}, ", ")
