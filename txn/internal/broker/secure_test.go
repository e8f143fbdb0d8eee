package broker_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward/e2e/leaktest"
	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/pkitest"
	"github.com/onceward/onceward/txn/security"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const password = "canary-k2Jq"

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// listen starts an embedded broker.
func listen(t *testing.T, opts ...kfake.Opt) []string {
	t.Helper()
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.ListenAddrs()
}

// patience is how long a refusal may take. It only decides how long it takes to show that one was
// waited out.
const patience = 5 * time.Minute

// connect tries once, as a process that starts does. A nil dialer is the default one.
func connect(
	t *testing.T, addrs []string, dial func(ctx context.Context, network, host string) (net.Conn, error), cfg security.Config,
) error {
	t.Helper()
	secure, err := broker.NewSecure(cfg, quiet())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := broker.Connect(ctx, broker.Config{Brokers: addrs, Dialer: dial, Secure: secure, Logger: quiet()}, "group")
	if err != nil {
		if ctx.Err() != nil {
			t.Errorf("the refusal was waited out: %v", err)
		}
		return err
	}
	defer c.Close()
	if _, err := c.Admin().ListTopics(t.Context()); err != nil {
		t.Errorf("connected, but a request fails: %v", err)
	}
	return nil
}

func checkRefusal(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Fatalf("refused: %v", err)
	case want == "":
		return
	case err == nil:
		t.Fatal("connected")
	}
	if text := err.Error(); !regexp.MustCompile(want).MatchString(text) || strings.Contains(text, "\n") || strings.Contains(text, password) {
		t.Errorf("the error is %q, want one line that matches %q and shows no secret", text, want)
	}
}

// TestPortWithoutTLS: a plain broker takes a handshake for the size of a request. It waits for the
// rest, or closes the connection because that is too large. Where it waits, the client gives the
// handshake up, twice in each of four tries. Either way the client says what may be wrong.
func TestPortWithoutTLS(t *testing.T) {
	silent := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) } // until the client closes it
	closing := func(c net.Conn) { _, _ = c.Read(make([]byte, 64<<10)) }
	for name, c := range map[string]struct {
		answer   func(net.Conn)
		sasl     security.SASL
		from, to time.Duration
	}{
		"silent": {silent, security.SASL{}, 40 * time.Second, 41 * time.Second},
		"silent, with SASL": {silent, security.SASL{Mechanism: "PLAIN", User: "app", Password: security.NewSecret(password)},
			40 * time.Second, 41 * time.Second},
		"closing": {closing, security.SASL{}, time.Second, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) {
				var conns sync.WaitGroup
				dial := func(context.Context, string, string) (net.Conn, error) {
					client, port := net.Pipe()
					conns.Go(func() {
						c.answer(port)
						_ = port.Close() // never fails
					})
					return client, nil
				}
				began := time.Now()
				cfg := security.Config{TLS: security.TLS{CAFile: pkitest.NewAuthority(t, "ca").File}, SASL: c.sasl}
				checkRefusal(t, connect(t, []string{"localhost:9092"}, dial, cfg), "check that this port speaks TLS")
				if took := time.Since(began); took < c.from || took > c.to {
					t.Errorf("the port is given up after %s, want %s to %s", took, c.from, c.to)
				}
				conns.Wait()
			})
		})
	}
}

// TestTLS connects to brokers with right and wrong certificates. The controls are the same settings
// with the right ones. It is on real sockets, as the handshakes and the alerts of a real connection
// are what is judged.
func TestTLS(t *testing.T) {
	ca, other := pkitest.NewAuthority(t, "ca"), pkitest.NewAuthority(t, "other")
	valid := time.Now().Add(time.Hour)
	server := func(p pkitest.Pair) kfake.Opt { return kfake.TLS(&tls.Config{Certificates: []tls.Certificate{p.TLS}}) }
	good := listen(t, server(ca.Issue("good", valid, "127.0.0.1")))
	named := listen(t, server(ca.Issue("named", valid, "kafka.example")))
	expired := listen(t, server(ca.Issue("expired", time.Now().Add(-time.Minute), "127.0.0.1")))
	old := listen(t, kfake.TLS(&tls.Config{
		Certificates: []tls.Certificate{ca.Issue("old", valid, "127.0.0.1").TLS}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11,
	}))
	mutual := listen(t, kfake.TLS(&tls.Config{
		Certificates: []tls.Certificate{ca.Issue("mutual", valid, "127.0.0.1").TLS},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool,
	}))
	client, stranger := ca.Issue("client", valid), other.Issue("stranger", valid)

	trusting := security.TLS{CAFile: ca.File}
	for _, c := range []struct {
		name  string
		addrs []string
		tls   security.TLS
		want  string
	}{
		{"right", good, trusting, ""},
		{"wrong authority", good, security.TLS{CAFile: other.File}, "not signed by a known authority: set the file of the authority"},
		{"system's authorities", good, security.TLS{Enabled: true}, "not signed by a known authority"},
		{"insecure", good, security.TLS{InsecureSkipVerify: true}, ""},
		{"expired", expired, trusting, "has expired or is not valid yet"},
		{"wrong name", named, trusting, "certificate is not for 127.0.0.1: .*set the server name"},
		{"server name", named, security.TLS{CAFile: ca.File, ServerName: "kafka.example"}, ""},
		{"another server name", good, security.TLS{CAFile: ca.File, ServerName: "kafka.example"}, "certificate is not for kafka.example"},
		{"TLS 1.1", old, trusting, "refused the TLS connection: .*TLS versions"},
		{"plain client, TLS broker", good, security.TLS{}, "seems to speak TLS on this port: turn TLS on"},
		{"client certificate", mutual, security.TLS{CAFile: ca.File, CertFile: client.CertFile, KeyFile: client.KeyFile}, ""},
		{"no client certificate", mutual, trusting, "refused the client's certificate: set a certificate and key"},
		{"strange client certificate", mutual, security.TLS{CAFile: ca.File, CertFile: stranger.CertFile, KeyFile: stranger.KeyFile},
			"refused the client's certificate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			checkRefusal(t, connect(t, c.addrs, nil, security.Config{TLS: c.tls}), c.want)
		})
	}
}

// TestSASL connects with right and wrong credentials.
func TestSASL(t *testing.T) {
	ca := pkitest.NewAuthority(t, "ca")
	certificate := ca.Issue("broker", time.Now().Add(time.Hour), "127.0.0.1")
	users := []kfake.Opt{
		kfake.EnableSASL(), kfake.User("PLAIN", "app", password), kfake.User("SCRAM-SHA-256", "app", password), kfake.User("SCRAM-SHA-512", "app", password),
	}
	clear := listen(t, users...)
	encrypted := listen(t, append(users, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{certificate.TLS}}))...)
	only256 := listen(t, kfake.EnableSASL(), kfake.User("SCRAM-SHA-256", "app", password))
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	trusting := security.TLS{CAFile: ca.File}
	token := func(context.Context) (security.Secret, error) { return security.NewSecret(password), nil }
	broken := func(context.Context) (security.Secret, error) {
		return security.Secret{}, errors.New("the issuer is away")
	}
	as := func(m security.Mechanism, user, pass string) security.SASL {
		return security.SASL{Mechanism: m, User: user, Password: security.NewSecret(pass)}
	}
	for _, c := range []struct {
		name  string
		addrs []string
		cfg   security.Config
		want  string
	}{
		{"SCRAM-SHA-256", clear, security.Config{SASL: as("SCRAM-SHA-256", "app", password)}, ""},
		{"SCRAM-SHA-512 over TLS", encrypted, security.Config{TLS: trusting, SASL: as("SCRAM-SHA-512", "app", password)}, ""},
		{"PLAIN over TLS", encrypted, security.Config{TLS: trusting, SASL: as("PLAIN", "app", password)}, ""},
		{"PLAIN insecurely", clear, security.Config{SASL: security.SASL{
			Mechanism: "PLAIN", User: "app", PasswordFile: file, InsecureWithoutTLS: true}}, ""},
		{"password from a file", clear, security.Config{SASL: security.SASL{Mechanism: "SCRAM-SHA-512", User: "app", PasswordFile: file}}, ""},
		{"wrong password", clear, security.Config{SASL: as("SCRAM-SHA-512", "app", "wrong")}, `user "app".* SCRAM-SHA-512: check user and`},
		{"wrong password, PLAIN", encrypted, security.Config{TLS: trusting, SASL: as("PLAIN", "app", "wrong")}, `user "app".* PLAIN: check user and`},
		{"wrong user", clear, security.Config{SASL: as("SCRAM-SHA-256", "nobody", password)}, `user "nobody".*: check user and`},
		{"unknown mechanism", only256, security.Config{TLS: security.TLS{}, SASL: security.SASL{
			Mechanism: "OAUTHBEARER", Token: token, InsecureWithoutTLS: true}}, "does not offer OAUTHBEARER on this port"},
		{"broken token", only256, security.Config{SASL: security.SASL{
			Mechanism: "OAUTHBEARER", Token: broken, InsecureWithoutTLS: true}}, "does not offer OAUTHBEARER|the issuer is away"},
		{"no SASL", clear, security.Config{}, "closed the connection at once: if this port wants TLS or SASL, set them"},
		{"no SASL over TLS", encrypted, security.Config{TLS: trusting}, "closed the connection at once: if this port wants SASL, set it"},
		{"SASL without TLS", encrypted, security.Config{SASL: as("SCRAM-SHA-256", "app", password)}, "turn TLS on"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			checkRefusal(t, connect(t, c.addrs, nil, c.cfg), c.want)
		})
	}
}

// TestFilesAreReadAgain rotates the client's certificate and the authority under a running process:
// the next connection has the new ones, and a rotation that is half done changes nothing.
func TestFilesAreReadAgain(t *testing.T) {
	first, second := pkitest.NewAuthority(t, "first"), pkitest.NewAuthority(t, "second")
	valid := time.Now().Add(time.Hour)
	var seen atomic.Value
	serve := func(ca *pkitest.Authority) []string {
		return listen(t, kfake.TLS(&tls.Config{
			Certificates: []tls.Certificate{ca.Issue("broker", valid, "127.0.0.1").TLS}, ClientAuth: tls.RequireAndVerifyClientCert,
			ClientCAs: ca.Pool, VerifyConnection: func(s tls.ConnectionState) error {
				seen.Store(s.PeerCertificates[0].Subject.CommonName)
				return nil
			},
		}))
	}
	before, after := serve(first), serve(second)
	one, two := first.Issue("one", valid), second.Issue("two", valid)
	dir := t.TempDir()
	files := security.TLS{CAFile: filepath.Join(dir, "ca"), CertFile: filepath.Join(dir, "cert"), KeyFile: filepath.Join(dir, "key")}
	replace := func(from, to string) {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, append(content, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
		// Sizes can be equal, and a coarse clock can give both contents one time.
		later := time.Now().Add(time.Duration(len(to)) * time.Second)
		if err := os.Chtimes(to, later, later); err != nil {
			t.Fatal(err)
		}
	}
	replace(first.File, files.CAFile)
	replace(one.CertFile, files.CertFile)
	replace(one.KeyFile, files.KeyFile)
	secure, err := broker.NewSecure(security.Config{TLS: files}, quiet())
	if err != nil {
		t.Fatal(err)
	}
	ping := func(addrs []string) error {
		c, err := broker.Connect(t.Context(), broker.Config{Brokers: addrs, Secure: secure, Logger: quiet()}, "group")
		if err == nil {
			c.Close()
		}
		return err
	}
	expect := func(addrs []string, name string) {
		t.Helper()
		if err := ping(addrs); err != nil || seen.Load() != name {
			t.Fatalf("the broker saw %v, want %s (%v)", seen.Load(), name, err)
		}
	}
	expect(before, "one")
	replace(two.CertFile, files.CertFile) // its key is still the old one
	expect(before, "one")
	replace(two.KeyFile, files.KeyFile)
	replace(second.File, files.CAFile)
	expect(after, "two")
	checkRefusal(t, ping(before), "not signed by a known authority")
}

// TestTokenIsReadAgain: a token is asked for with each authentication, from the file as it is then.
func TestTokenIsReadAgain(t *testing.T) {
	for _, content := range []string{"", "\n"} {
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := broker.NewSecure(security.Config{SASL: security.SASL{
			Mechanism: security.OAuthBearer, TokenFile: file, InsecureWithoutTLS: true}}, quiet())
		checkRefusal(t, err, "^SASL.TokenFile: .*token is empty$")
	}
	_, err := broker.NewSecure(security.Config{SASL: security.SASL{
		Mechanism: security.OAuthBearer, TokenFile: filepath.Join(t.TempDir(), "none"), InsecureWithoutTLS: true}}, quiet())
	checkRefusal(t, err, "^SASL.TokenFile: open .*none: ")
}
