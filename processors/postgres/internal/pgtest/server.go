package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/e2e/cluster"
)

// Server is a PostgreSQL server that this process has started.
type Server struct {
	url  string
	bin  string
	dir  *cluster.TempDir
	user *syscall.Credential // nil where the process may run a server itself
	proc *cluster.Process
}

// Own starts a server for this test alone, which may take it down.
func Own(t testing.TB) (*Server, *Database) {
	t.Helper()
	if url := os.Getenv(envURL); url != "" && url != noServer {
		t.Skip("the test takes its server down; it needs an installed one, without " + envURL)
	}
	if os.Getenv(envURL) == noServer {
		skipWithout(t, errUnwanted)
	}
	s, err := start(t.Context())
	skipWithout(t, err)
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return s, create(t, s.url)
}

// settings of the server. The deadlock timeout is short because tests make deadlocks.
func settings() []string {
	fsync := "off"
	if os.Getenv(envFsync) == "1" {
		fsync = "on"
	}
	var args []string
	for _, s := range []string{
		"listen_addresses=", "max_connections=300", "shared_buffers=64MB", "deadlock_timeout=50ms", "fsync=" + fsync,
		"full_page_writes=" + fsync, "max_wal_size=2GB", "logging_collector=off",
	} {
		args = append(args, "-c", s)
	}
	return args
}

// start makes a cluster of databases and runs a server on it.
func start(ctx context.Context) (*Server, error) {
	bin, err := findServer()
	if err != nil {
		return nil, err
	}
	dir, err := cluster.NewTempDir("postgres")
	if err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	s := &Server{bin: bin, dir: dir}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, dir.Remove())
	}
	if err := s.launch(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// findServer returns the directory of the newest server's programs. Debian has them outside of
// PATH.
func findServer() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errNotInstalled
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // 0 is never the newest
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
}

// prepare finds the user and runs initdb.
func (s *Server) prepare(ctx context.Context) error {
	if os.Geteuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			u, err = user.Lookup("nobody")
		}
		if err != nil {
			return fmt.Errorf("pgtest: PostgreSQL does not run as root, and there is no other user: %w", err)
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr, os.Chown(s.dir.Path(), int(uid), int(gid))); err != nil {
			return fmt.Errorf("pgtest: the data directory for user %s: %w", u.Username, err)
		}
		s.user = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	initdb := s.command(ctx, "initdb", "-D", s.data(), "-U", "onceward", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C")
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("pgtest: initdb: %w\n%s", err, out)
	}
	query := url.Values{"host": {s.dir.Path()}, "user": {"onceward"}}
	s.url = (&url.URL{Scheme: "postgres", Path: "/postgres", RawQuery: query.Encode()}).String()
	return nil
}

func (s *Server) data() string { return s.dir.File("data") }

func (s *Server) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, program), args...)
	cmd.Dir = s.dir.Path()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.user}
	return cmd
}

// launch runs the server and waits until it answers.
func (s *Server) launch(ctx context.Context) error {
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	defer log.Close() // the server writes it, through a descriptor of its own
	args := append([]string{"-D", s.data(), "-k", s.dir.Path()}, settings()...)
	cmd := s.command(context.WithoutCancel(ctx), "postgres", args...)
	cmd.Stdout, cmd.Stderr = log, log
	if s.proc, err = cluster.Launch(cmd); err != nil {
		return fmt.Errorf("pgtest: start the server: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		conn, err := pgx.Connect(ctx, s.url)
		if err == nil {
			tick.Stop()
			return conn.Close(ctx)
		}
		select {
		case <-s.proc.Ended():
			err = fmt.Errorf("the server has ended: %w", s.proc.Err())
		case <-ctx.Done():
		case <-tick.C:
			continue
		}
		tick.Stop()
		return fmt.Errorf("pgtest: the server does not answer: %w\n%s", err, cluster.Tail(s.log(), 4<<10))
	}
}

func (s *Server) log() string { return s.dir.File("server.log") }

// Kill ends the server at once, as immediate shutdown does: sessions are cut off, and the next
// [Server.Resume] recovers.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	if err := s.stop(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
}

// Resume starts a server again that was killed.
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	if err := s.launch(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) stop(signal os.Signal) error {
	select {
	case <-s.proc.Ended():
		return nil
	default:
	}
	if err := s.proc.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("pgtest: stop the server: %w", err)
	}
	<-s.proc.Ended()
	return nil
}

func (s *Server) close() error {
	var err error
	if s.proc != nil {
		err = s.stop(syscall.SIGINT) // fast shutdown
	}
	return errors.Join(err, s.dir.Remove())
}
