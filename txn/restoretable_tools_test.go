package txn_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/admin"
)

// leftOutOfVerify expects that the store of an instance is left out, because it is restored from
// its topic.
func (p *prices) leftOutOfVerify() {
	p.t.Helper()
	opened, err := admin.OpenState(p.t.Context(), p.cfg.StateDir)
	if err != nil {
		p.t.Fatal(err)
	}
	outcomes, err := p.office(p.t).Verify(p.t.Context(), opened, admin.VerifyOptions{Scratch: p.t.TempDir() + "/scratch"})
	if err != nil || len(outcomes) != 1 || outcomes[0].Err != nil || !errors.Is(outcomes[0].Skipped, admin.ErrFromSource) || outcomes[0].Changelog != "prices" {
		p.t.Errorf("verify returned %+v, %v", outcomes, err)
	}
	if err := opened.Close(); err != nil {
		p.t.Error(err)
	}
}

// TestVerifyOfRestoredTableThatRuns: verify leaves out the store of a running instance if it is
// restored from its topic. The instance is asked over its control socket, which is a real
// one.
func TestVerifyOfRestoredTableThatRuns(t *testing.T) {
	p := newPricesOn(t, newRealBroker(t, 1, "changes", "dead"), kept)
	app, _ := start(t, restorable(t), p.cfg)
	waitFor(t, "the task", running(app, 1))
	p.leftOutOfVerify()
}

// TestToolsAndRestoredTable: what operators' tools say of a store that is restored from its topic.
// Verify leaves it out; offsets that were moved from outside are not accepted, and set back they
// are right again; the plan tells that the option was added.
func TestToolsAndRestoredTable(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPrices(t, kept)
		p.feed(40, 5, 0)
		p.lives(restorable(t))
		p.leftOutOfVerify()

		client := p.office(t)
		op := client.Application(restorable(t))
		committed, err := p.adm.FetchOffsets(t.Context(), "pricing")
		if err != nil {
			t.Fatal(err)
		}
		was, _ := committed.Lookup("prices", 0)
		p.feed(10, 5, 0)
		p.commits(was.At+3, "")
		for name, act := range map[string]func() (admin.Report, error){
			"adopt":       func() (admin.Report, error) { return op.Adopt(t.Context(), admin.Options{}) },
			"accept-skip": func() (admin.Report, error) { return op.AcceptSkip(t.Context(), admin.Options{}) },
			"reset":       func() (admin.Report, error) { return op.Reset(t.Context(), admin.Options{}, nil) },
			"from-rounds": func() (admin.Report, error) { return op.AdoptFromRounds(t.Context(), admin.Options{}) },
		} {
			if _, err := act(); !errors.Is(err, admin.ErrRefused) || !strings.Contains(err.Error(), "RestoreFromTopic") ||
				strings.Contains(err.Error(), "accept-skip prices") || strings.Contains(err.Error(), "adopt prices") {
				t.Errorf("%s returned %v", name, err)
			}
		}
		p.commits(was.At, was.Metadata)
		p.lives(restorable(t))

		before := pricesTopology(t).Description()
		plan, err := client.Application(restorable(t)).Plan(t.Context(), &before)
		if err != nil {
			t.Fatal(err)
		}
		told := false
		for _, f := range plan.Findings {
			told = told || f.Subject == graph.SubjectStore && f.Judgement == admin.Rebuild && strings.Contains(f.What, "becomes prices")
		}
		if !told {
			t.Errorf("the plan is %+v", plan.Findings)
		}
	})
}

// TestRebuildWhileTopicIsWritten: others go on writing the topic of a table while its input is
// about to be read again. That is between the two looks of the action, of which the second is to
// find what the first has found.
func TestRebuildWhileTopicIsWritten(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPrices(t, compacted)
		p.feed(40, 5, 0)
		p.lives(restorable(t))
		client := p.office(t)
		var written atomic.Int32
		p.ControlKey(int16(kmsg.InitProducerID), func(req kmsg.Request) (kmsg.Response, error, bool) {
			p.KeepControl()
			if req.(*kmsg.InitProducerIDRequest).TransactionalID == nil {
				return nil, nil, false
			}
			p.SleepControl(func() {
				r := &kgo.Record{Topic: "prices", Key: []byte("k0"), Value: []byte("7")}
				if p.cl.ProduceSync(t.Context(), r).FirstErr() == nil {
					written.Add(1)
				}
			})
			return nil, nil, false
		})
		if _, err := client.Application(restorable(t)).RebuildFromInput(t.Context(), admin.Options{}, nil); err != nil {
			t.Fatal(err)
		}
		if written.Load() == 0 {
			t.Fatal("nothing was written in between, so this test shows nothing")
		}
		p.want["k0"] = 7
		newChain(p).lives(restorable(t))
	})
}

// TestLostOffsetsOfRestoredTable: the group has lost its offsets, and the instance its disk. There
// is no changelog that would say that there was state, but what the clean stop has kept: it is not
// taken for a new application, which would write all changes again.
func TestLostOffsetsOfRestoredTable(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPrices(t, kept)
		p.feed(40, 5, 0)
		p.lives(restorable(t))
		if _, err := p.adm.DeleteGroups(t.Context(), "pricing"); err != nil {
			t.Fatal(err)
		}
		p.stopsWith(restorable(t), "the last clean stop has kept", "adopt --from-rounds")
		client := p.office(t)
		if _, err := client.Application(restorable(t)).AdoptFromRounds(t.Context(), admin.Options{}); err != nil {
			t.Fatal(err)
		}
		p.loseState()
		p.feed(10, 5, 0)
		p.lives(restorable(t))
	})
}

// commits sets the offset of the application from outside.
func (p *prices) commits(at int64, metadata string) {
	p.t.Helper()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: "prices", At: at, LeaderEpoch: -1, Metadata: metadata})
	if err := p.adm.CommitAllOffsets(p.t.Context(), "pricing", offsets); err != nil {
		p.t.Fatal(err)
	}
}
