package security_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/onceward/onceward/txn/security"
)

const canary = "canary-k2Jq"

// TestSecretIsNeverShown prints, logs and marshals a secret in every way that a program does it by
// accident.
func TestSecretIsNeverShown(t *testing.T) {
	s := security.NewSecret(canary)
	sasl := security.SASL{Mechanism: security.Plain, User: "u", Password: s}
	hidden := struct{ c security.Config }{security.Config{SASL: sasl}} // fmt calls no methods on what is not exported
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
		for _, v := range []any{s, &s, sasl, &sasl, []security.Secret{s}, map[string]security.Secret{"a": s}, hidden, &hidden} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
	}
	fmt.Fprintln(&out, s, sasl, hidden, fmt.Errorf("wrapped %v", s))
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("x", "secret", s, "struct", sasl.Password, "hidden", hidden, "group", slog.GroupValue(slog.Any("s", s)))
	}
	for _, v := range []any{s, &s, map[string]any{"s": s}, struct{ S security.Secret }{s}, map[string]security.Secret{"k": s}} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(b)
	}
	text, err := s.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	out.Write(text)
	shown := out.String()
	for _, form := range []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary)} {
		if strings.Contains(shown, form) {
			t.Errorf("the secret shows as %s in\n%s", form, shown)
		}
	}
	if !strings.Contains(shown, "[secret]") {
		t.Error("nothing says that there is a secret")
	}
	// The control: the same search finds what is revealed.
	if !strings.Contains(s.Reveal(), canary) {
		t.Error("Reveal does not return the text")
	}
	if security.NewSecret("").IsSet() || (security.Secret{}).Reveal() != "" {
		t.Error("an empty secret counts as set")
	}
}

func TestValidate(t *testing.T) {
	token := func(context.Context) (security.Secret, error) { return security.NewSecret("t"), nil }
	secret := security.NewSecret(canary)
	for _, c := range []struct {
		name string
		cfg  security.Config
		want string // the field and a part of the reason, empty for none
	}{
		{"nothing", security.Config{}, ""},
		{"TLS", security.Config{TLS: security.TLS{Enabled: true}}, ""},
		{"mTLS", security.Config{TLS: security.TLS{CertFile: "c", KeyFile: "k"}}, ""},
		{"SCRAM in the clear", security.Config{SASL: security.SASL{Mechanism: "SCRAM-SHA-256", User: "u", Password: secret}}, ""},
		{"PLAIN over TLS", security.Config{TLS: security.TLS{CAFile: "ca"}, SASL: security.SASL{Mechanism: "PLAIN", User: "u", PasswordFile: "p"}}, ""},
		{"PLAIN insecurely", security.Config{SASL: security.SASL{Mechanism: "PLAIN", User: "u", PasswordFile: "p", InsecureWithoutTLS: true}}, ""},
		{"OAUTHBEARER", security.Config{TLS: security.TLS{Enabled: true}, SASL: security.SASL{Mechanism: "OAUTHBEARER", Token: token}}, ""},

		{"no key", security.Config{TLS: security.TLS{CertFile: "cert.pem"}}, "TLS.KeyFile: a certificate needs its key: .*cert.pem"},
		{"no certificate", security.Config{TLS: security.TLS{KeyFile: "key.pem"}}, "TLS.CertFile: a key needs its certificate"},
		{"verify and not", security.Config{TLS: security.TLS{CAFile: "ca", InsecureSkipVerify: true}}, "TLS.InsecureSkipVerify: "},
		{"no mechanism", security.Config{SASL: security.SASL{Password: secret}}, "SASL.Mechanism: .*no mechanism"},
		{"unknown mechanism", security.Config{SASL: security.SASL{Mechanism: "GSSAPI"}}, "SASL.Mechanism: \"GSSAPI\" is none of PLAIN"},
		{"lower case", security.Config{SASL: security.SASL{Mechanism: "plain"}}, "SASL.Mechanism: \"plain\" is none of"},
		{"PLAIN without TLS", security.Config{SASL: security.SASL{Mechanism: "PLAIN", User: "u", Password: secret}}, "SASL.Mechanism: PLAIN sends the secret"},
		{"token without TLS", security.Config{SASL: security.SASL{Mechanism: "OAUTHBEARER", TokenFile: "f"}}, "SASL.Mechanism: OAUTHBEARER sends the secret"},
		{"no user", security.Config{SASL: security.SASL{Mechanism: "SCRAM-SHA-512", Password: secret}}, "SASL.User: SCRAM-SHA-512 needs a user"},
		{"no password", security.Config{SASL: security.SASL{Mechanism: "SCRAM-SHA-512", User: "u"}}, "SASL.PasswordFile: .*needs a password"},
		{"two passwords", security.Config{SASL: security.SASL{Mechanism: "SCRAM-SHA-512", User: "u", Password: secret, PasswordFile: "p"}}, "SASL.PasswordFile: .*two passwords"},
		{"a token for SCRAM", security.Config{SASL: security.SASL{Mechanism: "SCRAM-SHA-512", User: "u", Password: secret, TokenFile: "f"}}, "SASL.TokenFile: a token is for OAUTHBEARER"},
		{"no token", security.Config{TLS: security.TLS{Enabled: true}, SASL: security.SASL{Mechanism: "OAUTHBEARER"}}, "SASL.TokenFile: OAUTHBEARER needs a token"},
		{"two tokens", security.Config{TLS: security.TLS{Enabled: true}, SASL: security.SASL{Mechanism: "OAUTHBEARER", Token: token, TokenFile: "f"}}, "SASL.TokenFile: there are two"},
		{"a user for a token", security.Config{TLS: security.TLS{Enabled: true}, SASL: security.SASL{Mechanism: "OAUTHBEARER", User: "u", Token: token}}, "SASL.User: "},
	} {
		t.Run(c.name, func(t *testing.T) { checkError(t, c.cfg.Validate(), c.want) })
	}
}
