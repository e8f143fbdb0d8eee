// Package security says how a process reaches a cluster that is not open to everybody: TLS, client
// certificates and SASL.
//
// It holds settings and checks them; the runtime and the operator's client turn them into
// connections. The zero [Config] is plain TCP without authentication.
//
// # What is refused
//
// TLS is version 1.2 or newer, and the certificate and the name of a broker are always checked.
// What gives protection away has "Insecure" in its name: [TLS].InsecureSkipVerify, and
// [SASL].InsecureWithoutTLS, without which PLAIN and OAUTHBEARER are refused on unencrypted
// connections, where they would show the secret itself to everybody on the way. SCRAM proves the
// knowledge of a password without showing it and may be used there.
//
// # Rotation
//
// Files are read again when they are needed and have changed: CA and client certificate for each
// new connection, password and token for each authentication. A pair of certificate and key that
// does not fit is not used, and the last good one stays. What the brokers accept ends sessions by
// time (connections.max.reauth.ms); the client then authenticates anew on the same connection.
//
// # Secrets
//
// A [Secret] does not show itself in logs, errors, JSON or %v. It is read with Reveal, which only
// the code that authenticates calls. Errors of this package name fields and files, never contents.
//
// A Config is a value; a copy may be used from any goroutine.
package security
