// Package security says how a process reaches a cluster with access control: TLS, client
// certificates and SASL.
//
// It holds settings and checks them; the runtime and the operator's client turn them into
// connections. The zero [Config] is plain TCP without authentication.
//
// # What is refused
//
// TLS is version 1.2 or newer, and the certificate and the name of a broker are always checked. The
// settings that remove protection have "Insecure" in their names: [TLS].InsecureSkipVerify and
// [SASL].InsecureWithoutTLS. Without the latter, PLAIN and OAUTHBEARER are refused on unencrypted
// connections, where they would show the secret itself to every listener. SCRAM proves the
// knowledge of a password without showing it and may be used there.
//
// # Rotation
//
// Files are read again when they are needed and have changed: CA and client certificate for each
// new connection, password and token for each authentication. A pair of certificate and key that
// does not fit is not used, and the last good one stays. Brokers can end sessions after a time
// (connections.max.reauth.ms); the client then authenticates again on the same connection.
//
// # Secrets
//
// A [Secret] does not show itself in logs, errors, JSON or %v. It is read with Reveal, which only
// the code that authenticates calls. Errors of this package name fields and files, never contents.
//
// A Config is a value; a copy may be used from any goroutine.
package security
