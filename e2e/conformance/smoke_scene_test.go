package conformance

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
)

// smokeTimeout is beyond what a run takes that fails: a minute and a half to generate, and six to
// wait for what does not come. The verifier would wait ten minutes for a transaction that hangs.
const smokeTimeout = 12 * time.Minute

// smokeTopics are all that Kafka's test has; fk is written by its generator alone.
var smokeTopics = []string{
	generatedTopic, "echo", "max", "min", "min-suppressed", "min-raw", "dif", "sum", "sws-raw", "sws-suppressed", "cnt", "avg", "tagg", "fk",
}

// smokeLoad is what is generated: for each of so many keys so many values, in about so many
// seconds. The zero load is that of Kafka's own command, 20 keys with 1,000 values in 90 s.
type smokeLoad struct{ keys, values, seconds int }

// smokeScene is one run of StreamsSmokeTest.
type smokeScene struct {
	*systemTest
	form smokeForm
	// judge generates, and then verifies.
	judge *javaProcess
}

// newSmokeScene starts a broker with all topics, and makes instances of the names, which are down,
// of an application with the mistake, "" for none.
func newSmokeScene(t *testing.T, f smokeForm, mistake string, names ...string) *smokeScene {
	t.Helper()
	settings := judgedSettings{Application: smokeApplication, Session: f.session, Broken: mistake}
	c := cluster.Own(t, cluster.KindKafka)
	s := &smokeScene{systemTest: newSystemTest(t, c, settings, []string{generatedTopic}, names...), form: f}
	s.createTopics(smokeTopics...)
	return s
}

// judged runs the scenario and returns what the verifier has printed and what is wrong by that, nil
// if nothing is.
func (s *smokeScene) judged(ctx context.Context) (output string, wrong error) {
	s.t.Helper()
	s.awaitMidnight(ctx)
	if err := s.run(ctx); err != nil {
		s.t.Fatal(err)
	}
	output, err := s.judge.wait(ctx, smokeTimeout)
	if err != nil {
		s.t.Fatalf("%v; it has printed:\n%s", err, output)
	}
	s.logf("the verifier has ended")
	if err := s.stopAll(ctx); err != nil {
		s.t.Fatal(err)
	}
	return output, smokeVerdict(output)
}

// awaitMidnight waits until the day, UTC, that a run begins in is the one that it ends in.
func (s *smokeScene) awaitMidnight(ctx context.Context) {
	s.t.Helper()
	now := time.Now().UTC()
	left := now.Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(now)
	if left > s.form.most {
		return
	}
	s.logf("waiting %s for midnight, UTC", left)
	if !pause(ctx, left+time.Second) {
		s.t.Fatal(ctx.Err())
	}
}

// run starts the first instance and the generator, and then lets instances join, die and leave for
// some rounds.
//
// It does not fail if the generator has ended before the last kill: nothing bounds the time of a
// takeover on a slow machine. The log says after each round how many records were generated since
// its last kill.
func (s *smokeScene) run(ctx context.Context) (err error) {
	if err := s.begin(ctx, s.instances[0]); err != nil {
		return err
	}
	s.launchJudge(ctx)
	if err := s.generating(ctx); err != nil {
		return err
	}
	var fed int64 // what was generated before the last step that ended an instance
	for round := range s.form.rounds {
		a, b, c := s.instances[round%3], s.instances[(round+1)%3], s.instances[(round+2)%3]
		for _, step := range []struct {
			name string
			do   func(context.Context, *judged) error // nil for nothing but to join
			to   *judged
		}{
			{"join", nil, b},
			{"kill and take over", s.killAndTakeOver, a},
			{"join", nil, c},
			{"leave", s.leave, b},
			{"kill and restart", s.killAndRestart, c},
		} {
			if !step.to.up() { // not yet, or it has left in the round before
				if err := s.begin(ctx, step.to); err != nil {
					return fmt.Errorf("%s %s: %w", step.name, step.to.name(), err)
				}
			}
			if step.do == nil {
				continue
			}
			if fed, err = s.generated(ctx); err != nil {
				return err
			}
			if err := step.do(ctx, step.to); err != nil {
				return fmt.Errorf("%s %s: %w", step.name, step.to.name(), err)
			}
		}
		all, err := s.generated(ctx)
		if err != nil {
			return err
		}
		s.logf("round %d is over; %d records were generated since its last kill; the verifier has ended: %t", round+1, all-fed, s.judge.hasEnded())
	}
	return nil
}

// launchJudge starts the command "run" of StreamsSmokeTest, or what does the same with another
// load.
func (s *smokeScene) launchJudge(ctx context.Context) {
	class, args := "org.apache.kafka.streams.tests.StreamsSmokeTest", []string{clientProperties(s.t, s.cluster), "run"}
	if l := s.form.load; l != (smokeLoad{}) {
		class = "ShortRun"
		args = []string{strings.Join(s.cluster.Brokers(), ","), strconv.Itoa(l.keys), strconv.Itoa(l.values), strconv.Itoa(l.seconds)}
	}
	s.judge = launchJava(s.t, javaCommand(ctx, s.t, streamsLibrary, class, args...))
}

// generated returns how many records the generator has written.
func (s *smokeScene) generated(ctx context.Context) (n int64, err error) {
	ends, err := s.cluster.EndOffsets(ctx, generatedTopic)
	for _, end := range ends {
		n += end
	}
	return n, err
}

// generating waits until the generator writes: a takeover is none if there is nothing to go on
// with.
func (s *smokeScene) generating(ctx context.Context) error {
	return s.await(ctx, func(ctx context.Context) (pending string, err error) {
		n, err := s.generated(ctx)
		if err != nil {
			return "", err
		}
		if s.judge.hasEnded() {
			return "", errors.New("the generator has ended by itself")
		}
		if n == 0 {
			return "nothing is generated", nil
		}
		return "", nil
	})
}
