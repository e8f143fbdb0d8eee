package cli

import (
	"os"

	"github.com/onceward/onceward/txn/security"
)

// connection is how to reach a cluster that is not open to everybody. A secret is never a flag,
// because the list of processes shows flags to everybody on the machine.
type connection struct {
	TLS                   bool   `group:"Connection" name:"tls" env:"ONCEWARD_TLS" help:"Encrypt connections; implied by every other setting of TLS."`
	TLSCA                 string `group:"Connection" name:"tls-ca" placeholder:"FILE" env:"ONCEWARD_TLS_CA" help:"Certificates of the authorities that sign the brokers' certificates; default is the system's."`
	TLSCert               string `group:"Connection" name:"tls-cert" placeholder:"FILE" env:"ONCEWARD_TLS_CERT" help:"Certificate of this client, for brokers that ask for one; read again when it changes."`
	TLSKey                string `group:"Connection" name:"tls-key" placeholder:"FILE" env:"ONCEWARD_TLS_KEY" help:"Key of that certificate."`
	TLSServerName         string `group:"Connection" name:"tls-server-name" placeholder:"NAME" env:"ONCEWARD_TLS_SERVER_NAME" help:"Name in the brokers' certificates; default is the host of each broker."`
	TLSInsecureSkipVerify bool   `group:"Connection" name:"tls-insecure-skip-verify" env:"ONCEWARD_TLS_INSECURE_SKIP_VERIFY" help:"Accept every certificate."`

	SASLMechanism          string `group:"Connection" name:"sasl-mechanism" placeholder:"NAME" env:"ONCEWARD_SASL_MECHANISM" help:"PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; default is no authentication."`
	SASLUser               string `group:"Connection" name:"sasl-user" placeholder:"NAME" env:"ONCEWARD_SASL_USER" help:"User for PLAIN and SCRAM."`
	SASLPasswordFile       string `group:"Connection" name:"sasl-password-file" placeholder:"FILE" env:"ONCEWARD_SASL_PASSWORD_FILE" help:"File with the password; or set ONCEWARD_SASL_PASSWORD."`
	SASLTokenFile          string `group:"Connection" name:"sasl-token-file" placeholder:"FILE" env:"ONCEWARD_SASL_TOKEN_FILE" help:"File with the token for OAUTHBEARER; read for every authentication."`
	SASLInsecureWithoutTLS bool   `group:"Connection" name:"sasl-insecure-without-tls" env:"ONCEWARD_SASL_INSECURE_WITHOUT_TLS" help:"Allow PLAIN and OAUTHBEARER on connections that are not encrypted."`
}

// passwordVariable is the one setting without a flag.
const passwordVariable = "ONCEWARD_SASL_PASSWORD"

func (c connection) security() security.Config {
	return security.Config{
		TLS: security.TLS{
			Enabled: c.TLS, CAFile: c.TLSCA, CertFile: c.TLSCert, KeyFile: c.TLSKey, ServerName: c.TLSServerName,
			InsecureSkipVerify: c.TLSInsecureSkipVerify,
		},
		SASL: security.SASL{
			Mechanism: security.Mechanism(c.SASLMechanism), User: c.SASLUser,
			Password:     security.NewSecret(os.Getenv(passwordVariable)),
			PasswordFile: c.SASLPasswordFile, TokenFile: c.SASLTokenFile, InsecureWithoutTLS: c.SASLInsecureWithoutTLS,
		},
	}
}

// connectionFlags has the flags for the fields of security.Config.
var connectionFlags = map[string]string{
	"Security.TLS.CAFile":              "--tls-ca",
	"Security.TLS.CertFile":            "--tls-cert",
	"Security.TLS.KeyFile":             "--tls-key",
	"Security.TLS.ServerName":          "--tls-server-name",
	"Security.TLS.InsecureSkipVerify":  "--tls-insecure-skip-verify",
	"Security.SASL.Mechanism":          "--sasl-mechanism",
	"Security.SASL.User":               "--sasl-user",
	"Security.SASL.PasswordFile":       "--sasl-password-file",
	"Security.SASL.TokenFile":          "--sasl-token-file",
	"Security.SASL.InsecureWithoutTLS": "--sasl-insecure-without-tls",
}
