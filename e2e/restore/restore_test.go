//go:build unix

package restore

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
)

// lived feeds the application, lets it work, and ends it.
func (s *scene) lived(rounds int) {
	s.t.Helper()
	p := s.start("")
	s.feed(rounds)
	s.check(p)
	p.Stop()
}

func (s *scene) lose() {
	s.t.Helper()
	if err := os.RemoveAll(s.StateDir); err != nil {
		s.t.Fatal(err)
	}
}

// changelog is the topic of a store.
func (s *scene) changelog(store string) string { return s.Application + "-" + store + "-changelog" }

// TestKilledInEveryPhase: one directory, killed at one point after the other of its restore. Each life goes on where the one before it was: the
// last one reads less than everything, and the state is whole.
func TestKilledInEveryPhase(t *testing.T) {
	t.Parallel()
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) {
		const keys, rounds = 4000, 6
		s := newScene(t, c, keys)
		s.lived(rounds)
		all := s.records()
		s.lose()
		for _, arm := range []string{
			"stable-before=kill", "stable-after=kill", "open-before=kill", "open-before=kill,skip=3",
			"restore-batch=kill", "restore-batch=kill,skip=1", "restore-batch=kill,skip=4", "restore-after=kill", "adopt-after=kill",
		} {
			p := s.start(arm)
			p.Killed()
			if !strings.Contains(p.Log.String(), "failpoint "+strings.Split(arm, "=")[0]+" kill") {
				t.Fatalf("%s: the point was not hit\n%s", arm, p.Log)
			}
		}
		p := s.start("")
		p.Await("all tasks", s.running(partitions))
		if n := s.restored(); n >= int64(all) {
			t.Errorf("the last life restored %d of %d records, as if there had been no life before it", n, all)
		}
		s.feed(2)
		s.check(p)
		p.Stop()

		// All at once, by a kill from outside in the middle of everything.
		s.lose()
		p = s.start("restore-batch=delay:50ms,times=1000")
		p.Await("the middle of the restore", func() bool { return s.restored() > int64(all)/4 })
		p.Tell(syscall.SIGKILL)
		p.Killed()
		p = s.start("")
		s.feed(1)
		s.check(p)
		p.Stop()
	})
}

// TestForeignTransaction: somebody else's transaction is open on a changelog that has to be read past it. That task waits, the
// others work, the log names the producer, and the task goes on when the transaction ends, without what it wrote.
func TestForeignTransaction(t *testing.T) {
	t.Parallel()
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) {
		s := newScene(t, c, 200)
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
		p := s.start("")
		p.Await("the other tasks", s.running(partitions-1))
		producer := fmt.Sprintf("producer id %d epoch %d", r.ProducerID, r.ProducerEpoch)
		p.Await("a report of the producer", func() bool {
			return len(p.Log.Lines("a restore waits for an open transaction", producer)) > 0
		})
		waiting := 0
		for _, task := range s.status().Tasks {
			if task.Remaining > 0 {
				waiting++
			}
		}
		if waiting != 1 || s.running(partitions)() {
			t.Errorf("%d tasks have something left: %+v", waiting, s.status().Tasks)
		}
		if err := foreign.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
			t.Fatal(err)
		}
		s.feed(2)
		s.check(p)
		p.Stop()
	})
}

// TestCompactedMeanwhile: the changelogs are compacted while an instance is away, so that offsets are missing and tombstones stand alone. Its old
// directory and an empty one lead to the same.
func TestCompactedMeanwhile(t *testing.T) {
	t.Parallel()
	c := cluster.Kafka(t) // the embedded broker does not compact
	s := newScene(t, c, 500)
	s.lived(2)
	old := s.StateDir + "-old"
	copyDirectory(t, s.StateDir, old)
	s.lived(2)
	p := s.start("")
	for _, store := range []string{"cycles", "totals"} {
		configs := []kadm.AlterConfig{{Name: "segment.ms", Value: kadm.StringPtr("100")}, {Name: "min.cleanable.dirty.ratio", Value: kadm.StringPtr("0.01")}}
		if _, err := c.Admin().AlterTopicConfigs(t.Context(), configs, s.changelog(store)); err != nil {
			t.Fatal(err)
		}
	}
	p.Await("the compaction of both changelogs", func() bool {
		s.feed(1) // a segment is closed by what follows it
		s.check(p)
		return s.thin("cycles") && s.thin("totals")
	})
	p.Stop()
	for _, directory := range []string{old, "none"} {
		s.StateDir = filepath.Join(filepath.Dir(s.StateDir), filepath.Base(directory))
		p := s.start("")
		s.feed(Cycle + 1)
		s.check(p)
		p.Stop()
	}
}

// thin reports whether more than half of the offsets of a changelog are empty.
func (s *scene) thin(store string) bool {
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

// records counts what the changelogs have. A round writes a key once, however often it was changed in it.
func (s *scene) records() int { return s.recordsOf("cycles") + s.recordsOf("totals") }

func (s *scene) recordsOf(store string) int {
	s.t.Helper()
	return len(s.Records(s.t, s.changelog(store)))
}

// TestOlderDirectory: a directory that is put back by an operator, as it was some commits ago, is brought to the last one by the tail alone.
func TestOlderDirectory(t *testing.T) {
	t.Parallel()
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) {
		const keys = 500
		s := newScene(t, c, keys)
		s.lived(6)
		old := s.StateDir + "-old"
		copyDirectory(t, s.StateDir, old)
		before := s.records()
		s.lived(2)
		tail := s.records() - before
		s.StateDir = old
		p := s.start("")
		p.Await("all tasks", s.running(partitions))
		if n := s.restored(); n != int64(tail) {
			t.Errorf("%d records were restored, want the %d of the last life", n, tail)
		}
		s.feed(2)
		s.check(p)
		p.Stop()
	})
}

// TestReadOnly: a directory that cannot be written to lets nothing start, says so, and loses nothing.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) {
		s := newScene(t, c, 200)
		s.lived(2)
		modes(t, s.StateDir, 0o555, 0o444)
		if err := os.Chmod(filepath.Dir(s.StateDir), 0o755); err != nil { //nolint:gosec // nobody has to come past it
			t.Fatal(err)
		}
		nobody := func(cmd *exec.Cmd) {
			if os.Geteuid() == 0 { // who may write anywhere
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			}
		}
		s.feed(1)
		p := s.start("", nobody)
		if err := p.Wait(); err == nil || len(p.Log.Lines("instance:", s.StateDir, "permission denied")) == 0 {
			t.Errorf("it ended with %v and said\n%s", err, p.Log)
		}
		modes(t, s.StateDir, 0o755, 0o644)
		p = s.start("")
		s.feed(1)
		s.check(p)
		p.Stop()
	})
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
