package txn_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/internal/pkitest"
	"github.com/onceward/onceward/txn/security"
)

// TestEveryClientIsSecured runs an application at a broker that only speaks TLS with client
// certificates and SCRAM: a client of the process that was made without them would hang. Nothing
// that the process leaves behind shows the password. It runs on real sockets, because a virtual
// network carries frames that it can read.
func TestEveryClientIsSecured(t *testing.T) {
	const password = "canary-k2Jq"
	ca := pkitest.NewAuthority(t, "ca")
	client := ca.Issue("client", time.Now().Add(time.Hour))
	serverTLS := &tls.Config{
		Certificates: []tls.Certificate{ca.Issue("broker", time.Now().Add(time.Hour), "127.0.0.1").TLS},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool,
	}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "in", "out"), kfake.TLS(serverTLS),
		kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "app", password))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.DialTLSConfig(&tls.Config{RootCAs: ca.Pool, Certificates: []tls.Certificate{client.TLS}}),
		kgo.SASL(scram.Auth{User: "app", Pass: password}.AsSha512Mechanism()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	b := &testBroker{Cluster: c, cl: cl, adm: kadm.NewClient(cl)}
	feed(t, b, 200)

	var log syncBuffer
	dir := t.TempDir()
	cfg := b.config(txn.Config{
		StateDir: dir, Workers: 1,
		Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Security: security.Config{
			TLS:  security.TLS{CAFile: ca.File, CertFile: client.CertFile, KeyFile: client.KeyFile},
			SASL: security.SASL{Mechanism: security.ScramSHA512, User: "app", Password: security.NewSecret(password)},
		},
	})
	for life := range 2 {
		app, stop := start(t, countTopology(t), cfg)
		if life > 0 {
			feed(t, b, 200)
		}
		waitFor(t, "the records to be committed", func() bool { return app.Status().Totals.Records == 200 })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	if text := log.String(); strings.Contains(text, password) || !strings.Contains(text, "app") {
		t.Error("the log shows the password, or nothing at all")
	}
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(password)) {
			t.Errorf("%s has the password in it", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSecurityMistakes: what is wrong with the settings is a ConfigError, and neither the disk nor
// the cluster is touched.
func TestSecurityMistakes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out")
		for field, s := range map[string]security.Config{
			"Security.SASL.Mechanism": {SASL: security.SASL{Mechanism: "PLAIN", User: "u", Password: security.NewSecret("p")}},
			"Security.TLS.KeyFile":    {TLS: security.TLS{CertFile: "c"}},
			"Security.TLS.CAFile":     {TLS: security.TLS{CAFile: "nosuch.pem"}},
			"Security.SASL.User":      {SASL: security.SASL{Mechanism: "SCRAM-SHA-256", PasswordFile: "nosuch"}},
			"Security.SASL.TokenFile": {TLS: security.TLS{Enabled: true}, SASL: security.SASL{Mechanism: "OAUTHBEARER", TokenFile: "nosuch"}},
		} {
			dir := filepath.Join(t.TempDir(), "state")
			app, err := txn.New(countTopology(t), b.config(txn.Config{StateDir: dir, Security: s, Logger: testLogger(t)}))
			if err == nil {
				err = app.Run(context.Background())
			}
			if mistake, ok := errors.AsType[*txn.ConfigError](err); !ok || mistake.Field != field {
				t.Errorf("%s: the error is %v", field, err)
			}
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("%s: the state directory was touched", field)
			}
		}
		if details, err := b.adm.ListTopics(t.Context()); err != nil || len(details) != 2 {
			t.Errorf("the cluster was touched: %v %v", details.Names(), err)
		}
	})
}

// syncBuffer is a buffer that several goroutines write.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
