//go:build unix

package faults

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/proxy"
	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/txn"
)

// lived feeds the application, lets it work, and ends it.
func (s *restoreScene) lived(rounds int) {
	s.t.Helper()
	l := s.start()
	for range rounds { // a round of the application writes a key once, however often it was changed
		s.feed(1)
		s.check(l)
	}
	l.End()
}

func (s *restoreScene) lose() {
	s.t.Helper()
	if err := os.RemoveAll(s.StateDir); err != nil {
		s.t.Fatal(err)
	}
}

// changelog is the topic of a store.
func (s *restoreScene) changelog(store string) string {
	return s.Application + "-" + store + "-changelog"
}

// TestKilledDuringRestore: one directory, killed after more and more frames of its restore. Each
// life goes on where the one before it was: the last one reads less than everything, and the state
// is whole.
func TestKilledDuringRestore(t *testing.T) {
	t.Parallel()
	cluster.OnVirtual(t, func(t *testing.T, c *cluster.Cluster) {
		const keys, rounds = 8000, 6 // a changelog is more than a chunk
		kills := 8
		if virtual.RaceDetector {
			kills = 4
		}
		s := newRestoreScene(t, c, keys)
		s.lived(rounds)
		all := s.records()
		c.Network().SetWeather(virtual.Weather{LatencyMax: 10 * time.Millisecond})

		// A life that is not killed says how many frames a restore takes.
		s.lose()
		frames := s.frames(proxy.Pass(), 0, 0)
		l := s.start()
		l.Until("all tasks", allRunning)
		whole := frames.Counts().Matched
		frames.Lift()
		l.End()

		s.lose()
		for killed := 0; ; killed++ {
			// The last of them comes after nine tenths of the frames, when a chunk of each changelog
			// is on the disk.
			at := s.frames(proxy.Hold(), killed*whole*9/(10*(kills-1)), 1)
			l = s.start()
			l.Await("a frame or all tasks", func() bool { return at.Counts().Matched > 0 || allRunning(l.Status()) })
			if at.Counts().Matched == 0 {
				if at.Lift(); killed < kills/4 {
					t.Errorf("only %d lives were killed", killed)
				}
				t.Logf("%d lives were killed within the %d frames of a restore", killed, whole)
				break
			}
			s.StateDir = l.Kill()
			at.Lift()
		}
		if n := restored(l.Status()); n >= int64(all) {
			t.Errorf("the last life restored %d of %d records, as if there had been no life before it", n, all)
		}
		s.feed(2)
		s.check(l)
		l.End()

		// From outside in the middle of everything.
		s.lose()
		slow := c.Network().Add(proxy.Match{Key: proxy.KeyFetch, Direction: proxy.ToClient, Where: s.ours}, proxy.Delay(time.Second))
		l = s.start()
		l.Until("the middle of the restore", func(status txn.Status) bool { return restored(status) > int64(all)/4 })
		if n := restored(l.Status()); n >= int64(all) {
			t.Errorf("%d of %d records are restored: that is no middle", n, all)
		}
		s.StateDir = l.Kill()
		slow.Lift()
		l = s.start()
		s.feed(1)
		s.check(l)
		l.End()
	})
}

// ours says whether a frame is of the application.
func (s *restoreScene) ours(f *proxy.Frame) bool { return strings.HasPrefix(f.ClientID, s.Application) }

// frames adds a rule for frames of the application in both directions.
func (s *restoreScene) frames(action proxy.Action, skip, limit int) *proxy.Rule {
	direction := proxy.ToBroker
	if skip%2 == 1 {
		direction = proxy.ToClient
	}
	return s.Network().Add(proxy.Match{Key: proxy.AnyKey, Direction: direction, Where: s.ours, Skip: skip, Limit: limit}, action)
}

// TestKilledInEveryPhase is TestKilledDuringRestore for a process that is killed at failpoints, on
// real Kafka. Without Kafka TestEveryPoint has the points one by one.
func TestKilledInEveryPhase(t *testing.T) {
	t.Parallel()
	c := cluster.Kafka(t)
	const keys, rounds = 4000, 6
	s := newRestoreScene(t, c, keys)
	s.lived(rounds)
	all := s.records()
	s.lose()
	for _, arm := range []string{
		"stable-before=kill", "stable-after=kill", "open-before=kill", "open-before=kill,skip=3",
		"restore-batch=kill", "restore-batch=kill,skip=1", "restore-batch=kill,skip=4", "restore-after=kill", "adopt-after=kill",
	} {
		p := s.launch(arm)
		p.Killed()
		if !strings.Contains(p.Log.String(), "failpoint "+strings.Split(arm, "=")[0]+" kill") {
			t.Fatalf("%s: the point was not hit\n%s", arm, p.Log)
		}
	}
	p := s.launch("")
	p.Await("all tasks", func() bool { return allRunning(s.status()) })
	if n := restored(s.status()); n >= int64(all) {
		t.Errorf("the last life restored %d of %d records, as if there had been no life before it", n, all)
	}
	s.feed(2)
	s.check(p)
	p.Stop()

	// All at once, by a kill from outside in the middle of everything.
	s.lose()
	p = s.launch("restore-batch=delay:50ms,times=1000")
	p.Await("the middle of the restore", func() bool { return restored(s.status()) > int64(all)/4 })
	p.Tell(syscall.SIGKILL)
	p.Killed()
	p = s.launch("")
	s.feed(1)
	s.check(p)
	p.Stop()
}

// TestForeignTransaction: another producer's transaction is open on a changelog that has to be read
// past it. That task waits, the others work, the log names the producer, and the task goes on when
// the transaction ends, without what it wrote.
func TestForeignTransaction(t *testing.T) {
	t.Parallel()
	cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) {
		s := newRestoreScene(t, c, 200)
		s.lived(2)
		foreign := c.Client(t, kgo.TransactionalID(s.Application+"-foreign"), kgo.TransactionTimeout(5*time.Minute),
			kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err := foreign.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		r, err := foreign.ProduceSync(t.Context(), &kgo.Record{Topic: s.changelog("totals"), Key: []byte("key-000000"), Value: []byte("foreign")}).First()
		if err != nil {
			t.Fatal(err)
		}
		s.lived(1)
		s.lose()
		l := s.start()
		l.Until("the other tasks", func(status txn.Status) bool { return runningTasks(status) == restorePartitions-1 })
		producer := fmt.Sprintf("producer id %d epoch %d", r.ProducerID, r.ProducerEpoch)
		l.Await("a report of the producer", func() bool {
			return len(l.Log.Lines("a changelog cannot be read on, because a transaction is open", producer)) > 0
		})
		waiting := 0
		for _, task := range l.Status().Tasks {
			if task.Remaining > 0 {
				waiting++
			}
		}
		if waiting != 1 || allRunning(l.Status()) {
			t.Errorf("%d tasks have something left: %+v", waiting, l.Status().Tasks)
		}
		if err := foreign.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
			t.Fatal(err)
		}
		s.feed(2)
		s.check(l)
		l.End()
	})
}

// TestCompactedMeanwhile: the changelogs are compacted while an instance is away, so that offsets
// are missing and tombstones stand alone. Its old directory and an empty one lead to the same.
func TestCompactedMeanwhile(t *testing.T) {
	t.Parallel()
	c := cluster.Kafka(t) // the embedded broker does not compact
	s := newRestoreScene(t, c, 500)
	s.lived(2)
	old := s.StateDir + "-old"
	copyDirectory(t, s.StateDir, old)
	s.lived(2)
	l := s.start()
	for _, store := range []string{"cycles", "totals"} {
		configs := []kadm.AlterConfig{{Name: "segment.ms", Value: kadm.StringPtr("100")}, {Name: "min.cleanable.dirty.ratio", Value: kadm.StringPtr("0.01")}}
		if _, err := c.Admin().AlterTopicConfigs(t.Context(), configs, s.changelog(store)); err != nil {
			t.Fatal(err)
		}
	}
	l.Await("the compaction of both changelogs", func() bool {
		s.feed(1) // a segment is closed by what follows it
		s.check(l)
		return s.thin("cycles") && s.thin("totals")
	})
	l.End()
	for _, directory := range []string{old, "none"} {
		s.StateDir = filepath.Join(filepath.Dir(s.StateDir), filepath.Base(directory))
		l := s.start()
		s.feed(cycleLength + 1)
		s.check(l)
		l.End()
	}
}

// thin reports whether more than half of the offsets of a changelog are empty.
func (s *restoreScene) thin(store string) bool {
	ends, err := s.EndOffsets(s.t.Context(), s.changelog(store))
	if err != nil {
		s.t.Fatal(err)
	}
	var sum int64
	for _, end := range ends {
		sum += end
	}
	return int64(s.recordsOf(store)) < sum/2
}

// records counts what the changelogs have. A round writes a key once, however often it was changed
// in it.
func (s *restoreScene) records() int { return s.recordsOf("cycles") + s.recordsOf("totals") }

func (s *restoreScene) recordsOf(store string) int {
	s.t.Helper()
	return len(s.Records(s.t, s.changelog(store)))
}

// TestOlderDirectory: a directory that is put back by an operator, as it was some commits ago, is
// brought to the last one by the tail alone.
func TestOlderDirectory(t *testing.T) {
	t.Parallel()
	cluster.OnVirtual(t, func(t *testing.T, c *cluster.Cluster) {
		const keys = 500
		s := newRestoreScene(t, c, keys)
		s.lived(6)
		old := s.StateDir + "-old"
		copyDirectory(t, s.StateDir, old)
		before := s.records()
		s.lived(2)
		tail := s.records() - before
		s.StateDir = old
		l := s.start()
		l.Until("all tasks", allRunning)
		if n := restored(l.Status()); n != int64(tail) {
			t.Errorf("%d records were restored, want the %d of the last life", n, tail)
		}
		s.feed(2)
		s.check(l)
		l.End()
	})
}

// TestReadOnly: a directory that cannot be written to lets nothing start, says so, and loses
// nothing. It takes a process of its own, because root may write anywhere.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	s := newRestoreScene(t, cluster.Embedded(t), 200)
	s.lived(2)
	modes(t, s.StateDir, 0o555, 0o444)
	temp := filepath.Dir(s.StateDir)
	for _, dir := range []string{temp, filepath.Dir(temp)} { // t.TempDir makes them for its user alone
		if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // another user has to come past it
			t.Fatal(err)
		}
	}
	other := func(cmd *exec.Cmd) {
		if os.Geteuid() == 0 { // root may write anywhere
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
	}
	s.feed(1)
	p := s.launch("", other)
	if err := p.Wait(); err == nil || len(p.Log.Lines("instance:", s.StateDir, "permission denied")) == 0 {
		t.Errorf("it ended with %v and said\n%s", err, p.Log)
	}
	modes(t, s.StateDir, 0o755, 0o644)
	l := s.start()
	s.feed(1)
	s.check(l)
	l.End()
}

// modes sets the permissions of everything in a directory.
func modes(t *testing.T, path string, directory, file fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, 0o755); err != nil { //nolint:gosec // for the walk
		t.Fatal(err)
	}
	var directories []string
	err := filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			directories = append(directories, at)
			return os.Chmod(at, 0o755) //nolint:gosec // for the walk
		}
		return os.Chmod(at, file)
	})
	for i := len(directories) - 1; err == nil && i >= 0; i-- {
		err = os.Chmod(directories[i], directory)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func copyDirectory(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}
