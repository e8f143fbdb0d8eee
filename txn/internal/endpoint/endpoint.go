// Package endpoint serves what a process tells of itself over HTTP.
//
// # Contract
//
// There is no authentication, so the endpoint is not reachable from other machines unless its owner
// says so. It listens on a loopback address or on a Unix domain socket that only its owner can
// open. [Parse] refuses every other address that is not stated to be exposed. A reverse proxy with
// TLS and authentication is the other way to reach it from elsewhere.
//
// Only GET and HEAD are answered, and POST where [Address].Actions allows it. A request to a loopback address must name a loopback host in its
// Host header. Otherwise a page in a browser of this machine could reach the endpoint through a
// name of its own that resolves to 127.0.0.1 (DNS rebinding). Headers, their time and the time of
// an answer are bounded. There is no profiling here.
//
// # Concurrency
//
// A [Server] owns one goroutine, and one for each connection; all have ended when Close returns,
// apart from handlers that ignore the end of their connection.
package endpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/onceward/onceward/txn/internal/loopback"
)

// Address is where to listen.
type Address struct {
	// Network is "tcp" or "unix".
	Network, Path string
	// Exposed allows a TCP address that other machines reach.
	Exposed bool
	// Actions lets POST requests through, whose handlers refuse pages of other sites themselves. It
	// is for addresses that are not exposed.
	Actions bool
}

// socketPrefix begins the address of a Unix domain socket.
const socketPrefix = "unix:"

// socketPathMax is what the address of a Unix domain socket can hold on every supported system.
const socketPathMax = 100

// Parse reads an address: host:port with a loopback host (localhost, 127.0.0.1, [::1]; port 0 takes
// a free one), or unix:/path. With exposed the host may be any, or none for all addresses of the
// machine. The error says what else could be done.
func Parse(s string, exposed bool) (Address, error) {
	if path, ok := strings.CutPrefix(s, socketPrefix); ok {
		switch {
		case path == "":
			return Address{}, errors.New("unix: needs a path behind it")
		case len(path) > socketPathMax:
			return Address{}, fmt.Errorf("the path of the socket has %d bytes, %d are possible", len(path), socketPathMax)
		}
		return Address{Network: "unix", Path: path}, nil
	}
	host, _, err := net.SplitHostPort(s)
	if err != nil {
		return Address{}, fmt.Errorf("%q is neither host:port nor unix:/path", s)
	}
	if !loopback.Host(host) && !exposed {
		return Address{}, fmt.Errorf("%q can be reached from other machines, and has no authentication: "+
			"listen on 127.0.0.1 or on unix:/path, and put a reverse proxy with TLS and authentication in front. Or state that "+
			"every client may see the metrics, with the names of topics, tasks and nodes in them, and the reasons of stopped tasks "+
			"(HTTPExposed, --http-exposed)", s)
	}
	return Address{Network: "tcp", Path: s, Exposed: exposed && !loopback.Host(host)}, nil
}

// Server answers until it is closed.
type Server struct {
	http *http.Server
	done chan struct{}
	addr string
}

// Limits of a request and its answer.
const (
	headerTimeout  = 5 * time.Second
	readTimeout    = 5 * time.Second
	writeTimeout   = 10 * time.Second
	idleTimeout    = time.Minute
	maxHeaderBytes = 16 << 10
)

// Serve listens and answers with h. Errors of single connections are logged at debug level.
func Serve(a Address, h http.Handler, log *slog.Logger) (*Server, error) {
	l, err := listen(a)
	if err != nil {
		return nil, fmt.Errorf("HTTP endpoint: %w", err)
	}
	s := start(l, guard(a, h), log)
	if a.Network == "unix" {
		s.addr = socketPrefix + a.Path
	}
	return s, nil
}

// start answers the connections of l.
func start(l net.Listener, h http.Handler, log *slog.Logger) *Server {
	s := &Server{
		http: &http.Server{
			Handler: h, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
			IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		},
		done: make(chan struct{}), addr: l.Addr().String(),
	}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(l) // always ends with ErrServerClosed or because the listener is gone
	}()
	return s
}

// Addr is where the server listens, with the port that was taken.
func (s *Server) Addr() string { return s.addr }

// Close ends the server and its connections at once; a socket's file is removed with the listener.
func (s *Server) Close() error {
	err := s.http.Close()
	<-s.done
	return err
}

func listen(a Address) (net.Listener, error) {
	if a.Network == "unix" {
		return listenSocket(a.Path)
	}
	l, err := net.Listen("tcp", a.Path)
	if err != nil {
		return nil, err
	}
	if a.Exposed {
		return l, nil
	}
	// A name is what the resolver says it is.
	if tcp, ok := l.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("%s is not a loopback address of this machine but %s", a.Path, l.Addr()), l.Close())
	}
	return l, nil
}

// listenSocket replaces a socket that a killed process has left behind, and nothing else.
func listenSocket(path string) (net.Listener, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSocket == 0:
		return nil, fmt.Errorf("%s exists and is not a socket", path)
	default:
		if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
			return nil, errors.Join(fmt.Errorf("another process listens on %s", path), c.Close())
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// guard lets through what may be asked.
func guard(a Address, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		action := r.Method == http.MethodPost && a.Actions && !a.Exposed
		if r.Method != http.MethodGet && r.Method != http.MethodHead && !action {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET is answered here", http.StatusMethodNotAllowed)
			return
		}
		if a.Network == "tcp" && !a.Exposed && !loopback.Host(hostOf(r.Host)) {
			http.Error(w, "the Host header must name a loopback address; a proxy in front has to set it so", http.StatusMisdirectedRequest)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		h.ServeHTTP(w, r)
	})
}

// hostOf cuts the port off, if there is one.
func hostOf(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.Trim(hostport, "[]")
}
