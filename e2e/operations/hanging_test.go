package operations_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
	"github.com/onceward/onceward/txn/security"
)

// TestHangingTransactions: transactions of which a broker has no markers are found, decided and
// repaired, on one broker.
func TestHangingTransactions(t *testing.T) {
	t.Parallel()
	c := cluster.OwnWith(t, cluster.KindKafka, cluster.Options{
		Settings: map[string]string{unverified: "false"}, ShortLived: true, SASL: true,
	})
	addUser(t, c)
	for name, test := range map[string]func(*testing.T, *hangingScene){
		"evidence": testHangingByEvidence, "unknown": testHangingUnknown, "refusals": testHangingRefusals, "fenced": testHangingFenced,
		"mixed": testHangingMixed, "permissions": testHangingPermissions,
	} {
		t.Run(name, func(t *testing.T) {
			s := newHangingScene(t, c)
			c.CreateTopics(t, 1, s.app+"-counts-changelog", s.app+"-rounds")
			test(t, s)
		})
	}
}

// testHangingByEvidence: committed and aborted transactions of the application and of somebody else
// are repaired by evidence, and readers of committed records see exactly what was committed.
func testHangingByEvidence(t *testing.T, s *hangingScene) {
	// It shows that the producer changes its epoch with every transaction: an abort marker alone
	// can be the fence of one that does not.
	s.hang(s.app+"-another", "earlier", ending{commit: true, known: []int32{2}})
	// Each partition of the output is held by one transaction.
	wants := []struct {
		id, verdict string
		own         bool
		hangs       []string
	}{
		{s.hang(s.own(0), "own-committed", ending{commit: true, known: []int32{2}, lost: []int32{0}, offset: 7, changelog: true}), "commit", true,
			[]string{s.app + "-counts-changelog[0]", s.out + "[0]", "__consumer_offsets"}},
		{s.hang(s.own(1), "own-aborted", ending{known: []int32{2}, lost: []int32{0}}), "abort", true, []string{s.out + "[0]"}},
		{s.hang(s.app+"-somebody", "foreign-committed", ending{commit: true, known: []int32{2}, lost: []int32{1}}), "commit", false, []string{s.out + "[1]"}},
		{s.hang(s.app+"-another", "foreign-aborted", ending{known: []int32{2}, lost: []int32{1}}), "abort", false, []string{s.out + "[1]"}},
	}
	a := s.operator(s.Brokers(), security.Config{})
	open, err := a.Transactions(t.Context())
	if err != nil || open.Unasked != "" {
		t.Fatal(open.Unasked, err)
	}
	for _, want := range wants {
		i := slices.IndexFunc(open.Transactions, func(tx admin.Transaction) bool { return tx.ID == want.id })
		if i < 0 {
			t.Errorf("%s is not found", want.id)
			continue
		}
		tx := open.Transactions[i]
		if tx.Ongoing || tx.Verdict != want.verdict || tx.Own != want.own || len(tx.Partitions) != len(want.hangs) {
			t.Errorf("%+v, want %+v", tx, want)
			continue
		}
		for i, p := range tx.Partitions {
			if at := fmt.Sprintf("%s[%d]", p.Topic, p.Partition); !strings.HasPrefix(at, want.hangs[i]) {
				t.Errorf("%s hangs in %s, want %s", tx.ID, at, want.hangs[i])
			}
		}
	}
	if len(open.Transactions) != len(wants) {
		t.Errorf("%d are open, want %d: %+v", len(open.Transactions), len(wants), open.Transactions)
	}
	if _, stable := s.stable(); stable {
		t.Error("the offsets are stable before the repair")
	}
	if got := s.visible(s.out); !slices.Equal(got, []string{"earlier", "foreign-committed", "own-committed"}) { // of partition 2
		t.Errorf("before the repair readers see %q", got)
	}

	var ids []string
	for _, want := range wants {
		ids = append(ids, want.id)
	}
	plain, err := a.RepairTransactions(t.Context(), admin.RepairOptions{DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, done := range plain.Transactions {
		if done.Own != (done.Left == "") {
			t.Errorf("%s is the application's own: %t, left: %q", done.ID, done.Own, done.Left)
		}
	}
	dry, err := a.RepairTransactions(t.Context(), admin.RepairOptions{DryRun: true, Transactions: ids})
	if err != nil {
		t.Fatal(err)
	}
	if _, stable := s.stable(); stable {
		t.Error("a dry run has repaired the offsets")
	}
	report, err := a.RepairTransactions(t.Context(), admin.RepairOptions{Transactions: ids})
	if err != nil {
		t.Fatal(err)
	}
	if len(dry.Transactions) != len(wants) || len(report.Transactions) != len(wants) {
		t.Errorf("the dry run has %d transactions, the repair %d", len(dry.Transactions), len(report.Transactions))
	}
	for i, done := range report.Transactions {
		if done.Left != "" || !slices.Equal(done.Written, dry.Transactions[i].Written) {
			t.Errorf("%s: left %q, written %v, and the dry run said %v", done.ID, done.Left, done.Written, dry.Transactions[i].Written)
		}
	}
	if got := s.visible(s.out); !slices.Equal(got, []string{"earlier", "foreign-committed", "foreign-committed", "own-committed", "own-committed"}) {
		t.Errorf("after the repair readers see %q", got)
	}
	if got := s.visible(s.app + "-counts-changelog"); !slices.Equal(got, []string{"own-committed"}) {
		t.Errorf("after the repair the changelog has %q", got)
	}
	if at, stable := s.stable(); !stable || at != 7 {
		t.Errorf("after the repair the offset is %d, stable %t", at, stable)
	}
	left, err := a.Transactions(t.Context())
	if err != nil || len(left.Transactions) != 0 {
		t.Errorf("after the repair %+v are open, %v", left.Transactions, err)
	}
	// The producers go on.
	for i, id := range []string{s.own(0), s.app + "-somebody"} {
		s.hang(id, fmt.Sprint("next-", i), ending{commit: true, known: []int32{0, 1}})
	}
	if got := s.visible(s.out); len(got) != 9 {
		t.Errorf("after the next transactions readers see %q", got)
	}
}

// one returns the only open transaction.
func (s *hangingScene) one(a *admin.Application) admin.Transaction {
	s.t.Helper()
	open, err := a.Transactions(s.t.Context())
	if err != nil || len(open.Transactions) != 1 {
		s.t.Fatalf("%+v are open, %v, want one", open.Transactions, err)
	}
	return open.Transactions[0]
}

// refused asserts that a repair is refused with these words, and that the transaction stays open.
func (s *hangingScene) refused(a *admin.Application, o admin.RepairOptions, words string) {
	s.t.Helper()
	before := s.one(a)
	report, err := a.RepairTransactions(s.t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "\n") {
		s.t.Errorf("the repair returned %v, want a line with %q", err, words)
	}
	for _, tx := range report.Transactions {
		if len(tx.Written) > 0 {
			s.t.Errorf("a refused repair has written %v", tx.Written)
		}
	}
	if after := s.one(a); len(after.Partitions) != len(before.Partitions) {
		s.t.Errorf("a refused repair has left %+v of %+v", after, before)
	}
}

// repaired asserts that a repair writes to so many partitions.
func (s *hangingScene) repaired(a *admin.Application, o admin.RepairOptions, partitions int) {
	s.t.Helper()
	report, err := a.RepairTransactions(s.t.Context(), o)
	if err != nil || len(report.Transactions) != 1 || len(report.Transactions[0].Written) != partitions {
		s.t.Errorf("the repair returned %+v, %v, want %d partitions", report, err, partitions)
	}
}

// testHangingUnknown: where nothing tells how a transaction ended, nothing is repaired until an
// operator names the outcome, and offsets not before the rest.
func testHangingUnknown(t *testing.T, s *hangingScene) {
	id := s.hang(s.own(0), "v", ending{commit: true, lost: []int32{0, 1}, offset: 3}) // the coordinator knows of no partition at all
	a := s.operator(s.Brokers(), security.Config{})
	tx := s.one(a)
	if tx.ID != id || tx.Ongoing || tx.Verdict != "unknown" || tx.State != "Empty" || len(tx.Partitions) != 3 {
		t.Errorf("%+v", tx)
	}
	report, err := a.RepairTransactions(t.Context(), admin.RepairOptions{})
	if err != nil || len(report.Transactions) != 1 || !strings.Contains(report.Transactions[0].Left, "the evidence does not tell") {
		t.Errorf("without an outcome the repair returned %+v, %v", report, err)
	}
	named := admin.RepairOptions{Transactions: []string{id}}
	s.refused(a, named, "name its end with --outcome if you know it")
	named.Outcome = admin.OutcomeCommit
	offsets := named
	offsets.Partitions = []admin.Partition{{Topic: tx.Partitions[2].Topic, Partition: tx.Partitions[2].Partition}}
	s.refused(a, offsets, "offsets are repaired after all other partitions")
	first := named
	first.Partitions = []admin.Partition{{Topic: s.out, Partition: 1}}
	s.repaired(a, first, 1)
	if got := s.visible(s.out); !slices.Equal(got, []string{"v"}) {
		t.Errorf("after the repair of one partition readers see %q", got)
	}
	s.refused(a, offsets, "offsets are repaired after all other partitions")
	opposite := named
	opposite.Outcome = admin.OutcomeAbort
	s.refused(a, opposite, "the evidence says commit") // the marker that was just written
	s.repaired(a, named, 2)
	if at, stable := s.stable(); !stable || at != 3 {
		t.Errorf("after the repair the offset is %d, stable %t", at, stable)
	}
	if got := s.visible(s.out); !slices.Equal(got, []string{"v", "v"}) {
		t.Errorf("after the repair readers see %q", got)
	}
}

// testHangingRefusals: what is ongoing is not repaired, and nothing beside a producer at work.
func testHangingRefusals(t *testing.T, s *hangingScene) {
	a, cl := s.operator(s.Brokers(), security.Config{}), s.client(s.own(0))
	begin := func() {
		t.Helper()
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: s.out, Partition: 2, Value: []byte("live")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	end := func() {
		t.Helper()
		if err := cl.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		if err := s.WaitEnded(t.Context(), s.own(0)); err != nil {
			t.Fatal(err)
		}
	}
	begin()
	tx := s.one(a)
	if !tx.Ongoing || tx.State != "Ongoing" || tx.Verdict != "" {
		t.Errorf("%+v", tx)
	}
	s.refused(a, admin.RepairOptions{Transactions: []string{tx.ID}, Outcome: admin.OutcomeAbort}, "it is ongoing")
	report, err := a.RepairTransactions(t.Context(), admin.RepairOptions{})
	if err != nil || len(report.Transactions) != 0 {
		t.Errorf("a repair of what hangs found %+v, %v", report, err)
	}
	end()

	id := s.hang(s.own(0), "hung", ending{commit: true, known: []int32{2}, lost: []int32{0}})
	s.refused(a, admin.RepairOptions{Transactions: []string{id}, Outcome: admin.OutcomeAbort}, "the evidence says commit")
	begin()
	report, err = a.RepairTransactions(t.Context(), admin.RepairOptions{})
	if err != nil || len(report.Transactions) != 1 || !strings.Contains(report.Transactions[0].Left, "at work with another transaction") {
		t.Errorf("beside a producer at work the repair returned %+v, %v", report, err)
	}
	end()
	s.repaired(a, admin.RepairOptions{}, 1)
	if got := s.visible(s.out); !slices.Equal(got, []string{"hung", "hung", "live", "live"}) {
		t.Errorf("readers see %q", got)
	}
}

// testHangingFenced: the marker of a transaction that InitProducerID has aborted tells that it was
// aborted, whatever its epoch.
func testHangingFenced(t *testing.T, s *hangingScene) {
	cl := s.client(s.own(0))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: s.out, Partition: 2, Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	producerID, epoch, err := cl.ProducerID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.produceUntold(s.own(0), s.out, 0, producerID, epoch, "v")
	if _, _, err := s.Client(t, kgo.TransactionalID(s.own(0))).ProducerID(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := s.operator(s.Brokers(), security.Config{})
	tx := s.one(a)
	if tx.Verdict != "abort" || tx.State != "Empty" {
		t.Errorf("%+v", tx)
	}
	t.Log(tx.Reasons)
	s.repaired(a, admin.RepairOptions{}, 1)
	if got := s.visible(s.out); len(got) > 0 {
		t.Errorf("readers see %q", got)
	}
}

// testHangingMixed: where the next transaction of a producer has gone on with what hung, the
// evidence does not tell.
func testHangingMixed(t *testing.T, s *hangingScene) {
	s.hang(s.own(0), "first", ending{known: []int32{2}, lost: []int32{0}})
	id := s.hang(s.own(0), "second", ending{commit: true, known: []int32{2}, lost: []int32{0}})
	a := s.operator(s.Brokers(), security.Config{})
	tx := s.one(a)
	if tx.ID != id || tx.Verdict != "unknown" || !strings.Contains(strings.Join(tx.Reasons, "; "), "holds records of an older transaction") {
		t.Errorf("%+v", tx)
	}
	s.repaired(a, admin.RepairOptions{Transactions: []string{id}, Outcome: admin.OutcomeAbort}, 1)
	if got := s.visible(s.out); !slices.Equal(got, []string{"second"}) {
		t.Errorf("readers see %q", got)
	}
}

// testHangingPermissions: what the principal may not read is told, and without ClusterAction the
// error names it.
func testHangingPermissions(t *testing.T, s *hangingScene) {
	access := &accessScene{Cluster: s.Cluster, t: t}
	ps := slices.DeleteFunc(slices.Concat(txn.Permissions(s.top), txn.RepairPermissions(s.top)), func(p txn.Permission) bool {
		return p.Resource == "Cluster" || p.Name == "__consumer_offsets" || p.Name == s.out && p.Operation == "Read" || p.Operation == "Create" || p.Operation == "DescribeConfigs"
	})
	access.grant(ps...)
	s.hang(s.own(0), "v", ending{commit: true, known: []int32{2}, lost: []int32{0}, changelog: true, offset: 5})
	a := s.operator(s.SASLBrokers(), scramAs(security.ScramSHA512))
	open, err := a.Transactions(t.Context())
	if err != nil || len(open.Transactions) != 1 || !strings.Contains(open.Unasked, `Read on Topic "__consumer_offsets"`) ||
		!strings.Contains(open.Unasked, fmt.Sprintf("Read on Topic %q", s.out)) || open.Transactions[0].Verdict != "commit" {
		t.Errorf("without Read on output and offsets: %+v, %v", open, err)
	}
	read := txn.Permission{Operation: "Read", Resource: "Topic", Name: "__consumer_offsets"}
	access.grant(read, txn.Permission{Operation: "Read", Resource: "Topic", Name: s.out})
	if open, err = a.Transactions(t.Context()); err != nil || open.Unasked != "" || len(open.Transactions[0].Partitions) != 3 {
		t.Errorf("with Read on all of it: %+v, %v", open, err)
	}
	s.refused(a, admin.RepairOptions{}, `ClusterAction on Cluster "kafka-cluster"`)
	action := txn.Permission{Operation: "ClusterAction", Resource: "Cluster", Name: "kafka-cluster"}
	access.grant(action)
	s.repaired(a, admin.RepairOptions{}, 3)
	access.revoke(action)
	access.revoke(read)
}
