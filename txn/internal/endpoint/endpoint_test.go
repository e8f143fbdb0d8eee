package endpoint

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward/e2e/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		in      string
		want    Address
		exposed bool
		// refused is a part of the error.
		refused string
	}{
		{in: "127.0.0.1:9090", want: Address{Network: "tcp", Path: "127.0.0.1:9090"}},
		{in: "127.0.0.9:0", want: Address{Network: "tcp", Path: "127.0.0.9:0"}},
		{in: "[::1]:9090", want: Address{Network: "tcp", Path: "[::1]:9090"}},
		{in: "localhost:9090", want: Address{Network: "tcp", Path: "localhost:9090"}},
		{in: "unix:/run/onceward.sock", want: Address{Network: "unix", Path: "/run/onceward.sock"}},
		{in: ":9090", refused: "reverse proxy"},
		{in: "0.0.0.0:9090", refused: "reverse proxy"},
		{in: "[::]:9090", refused: "reverse proxy"},
		{in: "10.0.0.1:9090", refused: "reverse proxy"},
		{in: "localhost.example.org:9090", refused: "reverse proxy"},
		{in: "127.0.0.1.example.org:9090", refused: "reverse proxy"},
		{in: ":9090", exposed: true, want: Address{Network: "tcp", Path: ":9090", Exposed: true}},
		{in: "10.0.0.1:9090", exposed: true, want: Address{Network: "tcp", Path: "10.0.0.1:9090", Exposed: true}},
		{in: "127.0.0.1:9090", exposed: true, want: Address{Network: "tcp", Path: "127.0.0.1:9090"}},
		{in: "unix:/run/onceward.sock", exposed: true, want: Address{Network: "unix", Path: "/run/onceward.sock"}},
		{in: "9090", exposed: true, refused: "neither host:port"},
		{in: "9090", refused: "neither host:port"},
		{in: "", refused: "neither host:port"},
		{in: "unix:", refused: "needs a path"},
		{in: "unix:/" + strings.Repeat("a", 200), refused: "are possible"},
	} {
		got, err := Parse(tc.in, tc.exposed)
		switch {
		case tc.refused == "" && (err != nil || got != tc.want):
			t.Errorf("Parse(%q) = %v, %v, want %v", tc.in, got, err, tc.want)
		case tc.refused != "" && (err == nil || !strings.Contains(err.Error(), tc.refused)):
			t.Errorf("Parse(%q) says %v, want something with %q", tc.in, err, tc.refused)
		}
	}
}

func serve(t *testing.T, a Address, h http.Handler) *Server {
	t.Helper()
	s, err := Serve(a, h, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })

func TestRequests(t *testing.T) {
	s := serve(t, Address{Network: "tcp", Path: "127.0.0.1:0"}, hello)
	_, port, _ := net.SplitHostPort(s.Addr())
	for _, tc := range []struct {
		method, host string
		want         int
	}{
		{"GET", s.Addr(), 200},
		{"HEAD", s.Addr(), 200},
		{"GET", "localhost:" + port, 200},
		{"GET", "LOCALHOST", 200},
		{"GET", "[::1]", 200},
		{"GET", "evil.example.org", 421},
		{"GET", "evil.example.org:" + port, 421},
		{"GET", "127.0.0.1.example.org", 421},
		{"GET", "10.0.0.1", 421},
		{"POST", s.Addr(), 405},
		{"PUT", s.Addr(), 405},
		{"DELETE", s.Addr(), 405},
		{"OPTIONS", s.Addr(), 405},
		{"TRACE", s.Addr(), 405},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tc.method, "http://"+s.Addr()+"/x", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = tc.host
		status, header := do(t, http.DefaultTransport, req)
		if status != tc.want {
			t.Errorf("%s with host %s: %d, want %d", tc.method, tc.host, status, tc.want)
		}
		if tc.want == 200 && header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: the answer may be sniffed", tc.method)
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

func do(t *testing.T, rt http.RoundTripper, req *http.Request) (status int, header http.Header) {
	t.Helper()
	resp, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header
}

func TestHeaderLimits(t *testing.T) {
	s := serve(t, Address{Network: "tcp", Path: "127.0.0.1:0"}, hello)
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n", strings.Repeat("a", 64<<10))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 64 KiB is answered with %s", resp.Status)
	}
}

// TestUnfinishedHeaderIsCutOff: a client that never finishes its header keeps its connection for
// headerTimeout and no longer.
func TestUnfinishedHeaderIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pipes kfake.VirtualNetwork
		l, err := pipes.Listen("tcp", "localhost:80")
		if err != nil {
			t.Fatal(err)
		}
		s := start(l, hello, slog.New(slog.DiscardHandler))
		slow, err := pipes.DialContext(t.Context(), "tcp", "localhost:80")
		if err != nil {
			t.Fatal(err)
		}
		defer slow.Close()
		began := time.Now()
		fmt.Fprint(slow, "GET / HTTP/1.1\r\n")
		if _, err := io.Copy(io.Discard, slow); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != headerTimeout {
			t.Errorf("the connection ends after %s, want %s", took, headerTimeout)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "ow") // the path of a test's own directory can be too long
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "http.sock")
	a := Address{Network: "unix", Path: path}

	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Serve(a, hello, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("a file in the way is answered with %v", err)
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "mine" {
		t.Errorf("the file in the way is now %q, %v", content, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}

	// A killed process leaves a socket behind on which no process listens.
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()

	s := serve(t, a, hello)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket has mode %v, %v", info.Mode(), err)
	}
	if want := "unix:" + path; s.Addr() != want {
		t.Errorf("it says it listens on %s, want %s", s.Addr(), want)
	}
	if _, err := Serve(a, hello, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a second server on the socket is answered with %v", err)
	}

	rt := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://whatever/x", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := do(t, rt, req); status != 200 {
		t.Errorf("over the socket: %d", status)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close the socket is there: %v", err)
	}
}

// TestNameThatIsNotLoopback: a resolver can call anything localhost.
func TestNameThatIsNotLoopback(t *testing.T) {
	if _, err := listen(Address{Network: "tcp", Path: "0.0.0.0:0"}); err == nil || !strings.Contains(err.Error(), "not a loopback address") {
		t.Errorf("listening on all addresses is answered with %v", err)
	}
}

// TestExposedEndpoint: an address that is stated to be exposed is listened on, and answers whatever
// host a request names.
func TestExposedEndpoint(t *testing.T) {
	a, err := Parse("0.0.0.0:0", true)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, a, hello)
	_, port, _ := net.SplitHostPort(s.Addr())
	for method, want := range map[string]int{"GET": 200, "POST": 405} {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:"+port+"/x", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "orders-7.example.org"
		if status, _ := do(t, http.DefaultTransport, req); status != want {
			t.Errorf("%s is answered with %d, want %d", method, status, want)
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// TestActions: POST requests pass where they are allowed, and never at an exposed address.
func TestActions(t *testing.T) {
	for name, c := range map[string]struct {
		address Address
		host    string
		want    int
	}{
		"allowed":      {Address{Network: "tcp", Path: "127.0.0.1:0", Actions: true}, "localhost", http.StatusOK},
		"another host": {Address{Network: "tcp", Path: "127.0.0.1:0", Actions: true}, "evil.example.org", http.StatusMisdirectedRequest},
		"not allowed":  {Address{Network: "tcp", Path: "127.0.0.1:0"}, "localhost", http.StatusMethodNotAllowed},
		"exposed":      {Address{Network: "tcp", Path: ":0", Exposed: true, Actions: true}, "localhost", http.StatusMethodNotAllowed},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/x", http.NoBody)
		r.Host = c.host
		if guard(c.address, hello).ServeHTTP(w, r); w.Code != c.want {
			t.Errorf("%s: POST answers %d, want %d", name, w.Code, c.want)
		}
		r.Method = http.MethodDelete
		w = httptest.NewRecorder()
		if guard(c.address, hello).ServeHTTP(w, r); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: DELETE answers %d", name, w.Code)
		}
	}
}
