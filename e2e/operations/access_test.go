package operations_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/e2e/proxy"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/security"
)

// permissionText is how an error names a permission.
func permissionText(p txn.Permission) string {
	if p.Prefix {
		return fmt.Sprintf("%s on every %s that begins with %q", p.Operation, p.Resource, p.Name)
	}
	return fmt.Sprintf("%s on %s %q", p.Operation, p.Resource, p.Name)
}

// refused runs the application without one permission: the error is one line that names it and the
// user, shows no secret, and the cluster holds what it held before.
func (e *accessScene) refused(p txn.Permission) {
	e.t.Helper()
	before := ""
	if p.Operation != "Create" { // without it other internal topics are made
		before = e.snapshot()
	}
	err := e.start(scramAs(security.ScramSHA512)).Wait()
	if err == nil || !strings.Contains(err.Error(), permissionText(p)) || !strings.Contains(err.Error(), `user "app" has no permission to`) {
		e.t.Errorf("without %s the error is %v", permissionText(p), err)
	} else if text := err.Error(); strings.Contains(text, "\n") || strings.Contains(text, password) {
		e.t.Errorf("without %s the error is more than a line, or shows the secret: %s", permissionText(p), text)
	}
	if p.Operation == "Create" {
		return
	}
	if after := e.snapshot(); after != before {
		e.t.Errorf("without %s the cluster changed from\n%sto\n%s", permissionText(p), before, after)
	}
}

// TestSecuredCluster: an old broker is refused and then upgraded, each permission is needed, all of
// them are enough, and wrong credentials are refused. One broker has SASL and ACLs for all of that;
// the applications have names of their own.
func TestSecuredCluster(t *testing.T) {
	t.Parallel()
	c := cluster.OwnWith(t, cluster.KindKafka, cluster.Options{
		ShortLived: true, SASL: true, Features: map[string]int16{transactionFeature: 1},
		Settings: map[string]string{"listener.name.client.oauthbearer.connections.max.reauth.ms": "4000"},
	})
	t.Run("too old", func(t *testing.T) { testTooOldBroker(t, c) })
	upgradeTransactions(t, c)
	addUser(t, c)
	for name, test := range map[string]func(*testing.T, *cluster.Cluster){
		"permissions": testPermissions, "taken away": testPermissionTakenAway, "credentials": testCredentials,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

const transactionFeature = "transaction.version"

// testTooOldBroker: a broker without transaction.version 2 is refused in one line, and nothing is
// created.
func testTooOldBroker(t *testing.T, c *cluster.Cluster) {
	e := newAccessScene(t, c, "old")
	e.brokers = c.Brokers() // which ask for no authentication
	before := e.ends()
	err := e.start(security.Config{}).Wait()
	want := "broker 1 has transaction.version 1, and 2 is required: use Kafka 4.0 or newer with that feature enabled " +
		"(kafka-features.sh upgrade --feature transaction.version=2)"
	if err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
	if after := e.ends(); after != before {
		t.Errorf("the cluster changed from\n%sto\n%s", before, after)
	}
}

// upgradeTransactions gives a broker transaction.version 2, as the refusal says.
func upgradeTransactions(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	updated, err := c.Admin().UpdateFeatures(t.Context(), false,
		kadm.FeatureUpdate{Feature: transactionFeature, MaxVersionLevel: 2, UpgradeType: 1})
	if err == nil {
		err = updated.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	instance.Await(t, "the upgrade", func() error { return nil }, func() error { // the controller answers before the broker has heard of it
		versions, err := c.Admin().ApiVersions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range versions {
			for _, f := range v.Raw().FinalizedFeatures {
				if f.Name == transactionFeature && f.MaxVersionLevel != 2 {
					return fmt.Errorf("%s is %d", f.Name, f.MaxVersionLevel)
				}
			}
		}
		return nil
	})
}

// testPermissions shows that the list is enough, and that every entry is asked for.
func testPermissions(t *testing.T, c *cluster.Cluster) {
	e := newAccessScene(t, c, "perm")
	all := txn.Permissions(e.top)
	e.feed(20)

	// Nothing is there yet: the first error lists all that is missing on the user's topics, and
	// nothing is created.
	before := e.ends()
	err := e.start(scramAs(security.ScramSHA256)).Wait()
	for _, p := range all {
		if p.Resource == "Topic" && p.Operation != "Create" && (err == nil || !strings.Contains(err.Error(), permissionText(p))) {
			t.Errorf("the first error does not name %s: %v", permissionText(p), err)
		}
	}
	if after := e.ends(); after != before {
		t.Errorf("the cluster changed from\n%sto\n%s", before, after)
	}
	e.grant(all...)
	creates := slices.DeleteFunc(slices.Clone(all), func(p txn.Permission) bool { return p.Operation != "Create" })
	// In the order of creation: what comes before a refusal is created, and needs no permission
	// afterwards.
	slices.SortFunc(creates, func(a, b txn.Permission) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range creates {
		e.revoke(p)
		e.refused(p)
		e.grant(p)
	}

	// Enough: start, restart, restart without state, and everything in between.
	for life := range 3 {
		if life == 2 {
			if err := os.RemoveAll(e.stateDir); err != nil {
				t.Fatal(err)
			}
		}
		r := e.start(scramAs([]security.Mechanism{security.ScramSHA256, security.ScramSHA512}[life%2]))
		e.feed(20)
		e.await(r)
		if err := r.Stop(); err != nil {
			t.Fatalf("life %d: %v", life, err)
		}
	}
	e.check()
	if got := e.count(e.topic("dead")); got != 4 {
		t.Errorf("%d dead letters, want 4", got)
	}

	// Every entry: without it, one clear error and no change.
	e.feed(20)
	for _, p := range all {
		if p.Operation != "Create" {
			e.revoke(p)
			e.refused(p)
			e.grant(p)
		}
	}
	r := e.start(scramAs(security.ScramSHA512))
	e.await(r)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	e.check()
}

// testPermissionTakenAway takes permissions from a running application, where no check at start
// helps: what cannot go on ends with an error that names it. That it ends at all shows that the
// entry is needed, and not only asked for.
func testPermissionTakenAway(t *testing.T, c *cluster.Cluster) {
	e := newAccessScene(t, c, "taken")
	all := txn.Permissions(e.top)
	e.grant(all...)
	for _, p := range all {
		needed := false
		switch p.Operation {
		case "Read":
			// A changelog and the rounds topic are read when a task is opened.
			needed = p.Resource == "Group" || strings.HasSuffix(p.Name, "in") || strings.HasSuffix(p.Name, "-repartition")
		case "Write":
			// Only fillers and large metadata go to the rounds topic.
			needed = !strings.HasSuffix(p.Name, "-rounds")
		}
		if !needed {
			continue
		}
		t.Run(p.Operation+" "+p.Name, func(t *testing.T) {
			e.t = t
			r := e.start(scramAs(security.ScramSHA512))
			e.feed(5)
			e.await(r)
			e.revoke(p)
			e.feed(5)
			err := r.Wait()
			if err == nil || errors.Is(err, instance.ErrGoesOn) || !strings.Contains(err.Error(), permissionText(p)) {
				t.Errorf("the application ended with %v, want an error that names %s", err, permissionText(p))
			}
			e.grant(p)
			r = e.start(scramAs(security.ScramSHA512))
			e.await(r)
			if err := r.Stop(); err != nil {
				t.Fatal(err)
			}
			e.check()
		})
	}
}

// testCredentials: a real broker says what it does not accept, and so does the error.
func testCredentials(t *testing.T, c *cluster.Cluster) {
	e := newAccessScene(t, c, "cred")
	wrong := scramAs(security.ScramSHA512)
	wrong.SASL.Password = security.NewSecret(password + "x")
	for name, test := range map[string]struct {
		cfg  security.Config
		want string
	}{
		"wrong password": {wrong, `did not accept user "app" with SCRAM-SHA-512: check user and secret`},
		"no mechanism": {security.Config{SASL: security.SASL{
			Mechanism: security.Plain, User: user, Password: security.NewSecret(password), InsecureWithoutTLS: true}},
			"does not offer PLAIN on this port"},
		"no SASL": {security.Config{}, "if this port wants TLS or SASL, set them"},
		"TLS":     {security.Config{TLS: security.TLS{InsecureSkipVerify: true}}, "check that this port speaks TLS"},
		"bad token": {security.Config{SASL: security.SASL{Mechanism: security.OAuthBearer, TokenFile: e.token("expired", -time.Hour),
			InsecureWithoutTLS: true}}, "did not accept the token with OAUTHBEARER"},
	} {
		t.Run(name, func(t *testing.T) {
			err := e.start(test.cfg).Wait()
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") ||
				strings.Contains(err.Error(), password) {
				t.Errorf("the error is %v, want one line with %q", err, test.want)
			}
		})
	}
	t.Run("token", func(t *testing.T) {
		e.t = t
		e.grant(txn.Permissions(e.top)...)
		p, err := proxy.Start(c.SASLBrokers()...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
		e.brokers = p.Brokers()
		file := e.token("token", time.Hour)
		first, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		again := p.Add(authenticationsAgain(first), proxy.Pass())
		r := e.start(security.Config{SASL: security.SASL{Mechanism: security.OAuthBearer, TokenFile: file, InsecureWithoutTLS: true}})
		// Sessions end after 4 s, and the connections authenticate again with what the file holds
		// then.
		r.Await("many connections to authenticate again", func() bool {
			e.token("token", time.Hour)
			e.feed(20)
			e.await(r)
			return again.Counts().Matched > 10
		})
		r.End()
		e.check()
	})
}

// authenticationsAgain match authentications that are not among the first requests of their
// connection, with another token than the first.
func authenticationsAgain(first []byte) proxy.Match {
	return proxy.Match{Key: int16(kmsg.SASLAuthenticate), Direction: proxy.ToBroker, Where: func(f *proxy.Frame) bool {
		req, err := f.Request()
		if err != nil || f.Correlation < 10 {
			return false
		}
		return !bytes.Contains(req.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes, bytes.TrimSpace(first))
	}}
}

// token writes an unsigned token of the user, as Kafka's development mode takes it, that is valid
// for some time from now on.
func (e *accessScene) token(name string, valid time.Duration) string {
	e.t.Helper()
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	now := time.Now()
	text := part(`{"alg":"none"}`) + "." + part(fmt.Sprintf(`{"sub":%q,"iat":%d,"exp":%d}`, user,
		now.Add(min(valid, 0)).Add(-time.Hour).Unix(), now.Add(valid).Unix())) + "."
	file := filepath.Join(e.stateDir, "..", name)
	whole := file + ".new" // a connection that authenticates meanwhile must not read half a token
	if err := os.WriteFile(whole, []byte(text+"\n"), 0o600); err != nil {
		e.t.Fatal(err)
	}
	if err := os.Rename(whole, file); err != nil {
		e.t.Fatal(err)
	}
	return file
}
