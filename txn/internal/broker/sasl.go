package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/onceward/onceward/txn/internal/keyfile"
	"github.com/onceward/onceward/txn/security"
)

// mechanismOf returns nil without a mechanism. Password and token files are read once here, to find
// mistakes, and again for every authentication.
func mechanismOf(s security.SASL) (sasl.Mechanism, error) {
	switch s.Mechanism {
	case security.Plain, security.ScramSHA256, security.ScramSHA512:
		if _, err := passwordOf(s); err != nil {
			return nil, err
		}
	case security.OAuthBearer:
		if s.TokenFile != "" {
			if _, err := keyfile.Secret("SASL.TokenFile", s.TokenFile); err != nil {
				return nil, err
			}
		}
	}
	scramAuth := func(context.Context) (scram.Auth, error) {
		password, err := passwordOf(s)
		return scram.Auth{User: s.User, Pass: password.Reveal()}, err
	}
	switch s.Mechanism {
	case "":
		return nil, nil
	case security.Plain:
		return told{plain.Plain(func(context.Context) (plain.Auth, error) {
			password, err := passwordOf(s)
			return plain.Auth{User: s.User, Pass: password.Reveal()}, err
		})}, nil
	case security.ScramSHA256:
		return told{scram.Sha256(scramAuth)}, nil
	case security.ScramSHA512:
		return told{scram.Sha512(scramAuth)}, nil
	case security.OAuthBearer:
		return told{oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
			token, err := tokenOf(ctx, s)
			return oauth.Auth{Token: token.Reveal()}, err
		})}, nil
	}
	return nil, fmt.Errorf("SASL mechanism %q is not known", s.Mechanism) // Validate has refused it
}

func passwordOf(s security.SASL) (security.Secret, error) {
	if s.PasswordFile == "" {
		return s.Password, nil
	}
	return keyfile.Secret("SASL.PasswordFile", s.PasswordFile)
}

func tokenOf(ctx context.Context, s security.SASL) (security.Secret, error) {
	if s.TokenFile != "" {
		return keyfile.Secret("SASL.TokenFile", s.TokenFile)
	}
	token, err := s.Token(ctx)
	if err == nil && !token.IsSet() {
		err = errors.New("the function returned an empty token")
	}
	return token, err
}

// authenticationError is an authentication that this side could not begin, or whose answer it
// refused.
type authenticationError struct{ err error }

func (e *authenticationError) Error() string { return "authenticating: " + e.err.Error() }
func (e *authenticationError) Unwrap() error { return e.err }

// told marks the errors of a mechanism, which could otherwise be told from those of the connection
// only by their texts.
type told struct{ sasl.Mechanism }

func (t told) Authenticate(ctx context.Context, host string) (sasl.Session, []byte, error) {
	session, first, err := t.Mechanism.Authenticate(ctx, host)
	if err != nil {
		return nil, nil, &authenticationError{err}
	}
	return toldSession{session}, first, nil
}

type toldSession struct{ sasl.Session }

func (s toldSession) Challenge(answer []byte) (bool, []byte, error) {
	done, next, err := s.Session.Challenge(answer)
	if err != nil {
		err = &authenticationError{err}
	}
	return done, next, err
}
