// Package control is the local socket of a running instance, in its state directory: tools on the
// same machine ask it what no other process can read, because the databases are locked. It speaks
// HTTP with JSON over a Unix domain socket that only the owner of the directory can open.
//
// A question changes nothing: the status, the rows and sizes of stores, and what the HTTP endpoint
// of the process serves. Resume, rebuild and checkpoint do what their callers in package txn say. A
// [Server] may be asked any number of things at a time; all of it has ended when Close returns.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// SocketName is the name of the socket in the state directory.
const SocketName = "control.sock"

// pathMax is what the address of a Unix domain socket can hold on every supported system.
const pathMax = 100

// ErrPathTooLong says that the socket cannot have its place in a state directory with such a long
// path.
var ErrPathTooLong = errors.New("the path of the state directory is too long for a socket")

// Server answers until it is closed.
type Server struct {
	http *http.Server
	done chan struct{}
	path string
	// requests counts those at work. None begins once closed is set.
	requests sync.WaitGroup
	mu       struct {
		sync.Mutex
		closed bool
	}
}

// Instance is what the socket tells and does. Its functions are called for every request, from its
// goroutine, and must be safe for that.
type Instance struct {
	Status func() any
	// Resume opens a stopped task again.
	Resume func(task string) error
	// Rebuild makes databases of tasks anew, and returns which.
	Rebuild func(RebuildRequest) (tasks []string, err error)
	// State answers questions about the stores.
	State Source
	// Rest answers every other GET request.
	Rest http.Handler
}

// Serve listens in dir. The directory's lock must be held: a socket that is left over from a
// process that was killed is replaced.
func Serve(dir string, in Instance) (*Server, error) {
	path := filepath.Join(dir, SocketName)
	if len(path) > pathMax {
		return nil, fmt.Errorf("%w: %s has %d bytes, %d are possible", ErrPathTooLong, path, len(path), pathMax)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("control socket: %w", err), l.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		// The only way to fail is a client that has gone away.
		_ = json.NewEncoder(w).Encode(in.Status())
	})
	mux.HandleFunc("POST /tasks/{task}/resume", func(w http.ResponseWriter, r *http.Request) {
		if err := in.Resume(r.PathValue("task")); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	})
	mux.HandleFunc("POST /rebuild", in.serveRebuild)
	states := stateHandler(in.State)
	mux.Handle("GET /state/", states)
	mux.Handle("POST /state/", states)
	mux.Handle("GET /", in.Rest)
	s := &Server{done: make(chan struct{}), path: path}
	s.http = &http.Server{
		Handler: s.counted(mux), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 64 << 10, // keys are in them
	}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(l) // always ends with ErrServerClosed or because the listener is gone
	}()
	return s, nil
}

// counted lets Close wait for the requests at work: they may hold views.
func (s *Server) counted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		closed := s.mu.closed
		if !closed {
			s.requests.Add(1)
		}
		s.mu.Unlock()
		if closed {
			return
		}
		defer s.requests.Done()
		h.ServeHTTP(w, r)
	})
}

// Close ends the server with its requests, and removes the socket.
func (s *Server) Close() error {
	s.mu.Lock()
	s.mu.closed = true
	s.mu.Unlock()
	err := s.http.Close()
	<-s.done
	s.requests.Wait()
	if rm := os.Remove(s.path); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
		err = errors.Join(err, rm)
	}
	return err
}

// Status asks the instance that runs on a state directory, and decodes its answer into out.
func Status(ctx context.Context, dir string, out any) error {
	resp, err := ask(ctx, dir, http.MethodGet, "/status")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(out)
}

// Resume asks the instance that runs on a state directory to open a stopped task again.
func Resume(ctx context.Context, dir, task string) error {
	resp, err := ask(ctx, dir, http.MethodPost, "/tasks/"+url.PathEscape(task)+"/resume")
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// ask returns the instance's answer if it is OK, and otherwise an error with what it says.
func ask(ctx context.Context, dir, method, path string) (*http.Response, error) {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", filepath.Join(dir, SocketName))
		},
	}}
	req, err := http.NewRequestWithContext(ctx, method, "http://instance"+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("no instance answers on the state directory %s: %w", dir, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return nil, fmt.Errorf("the instance on %s answered %s: %w", dir, resp.Status, err)
	}
	if resp.Header.Get("Content-Type") == refusalType {
		refusal := &Refusal{}
		if err := json.Unmarshal(text, refusal); err == nil {
			return nil, fmt.Errorf("the instance on %s: %w", dir, refusal)
		}
	}
	return nil, fmt.Errorf("the instance on %s: %s", dir, strings.TrimSpace(string(text)))
}
