package proxy

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const testClient = "client-1"

// request encodes a request as clients do, without the length.
func request(req kmsg.Request, correlation int32) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(testClient)).AppendRequest(nil, req, correlation)[4:]
}

// reply encodes a response as brokers do, without the length.
func reply(resp kmsg.Response, correlation int32) []byte {
	raw := []byte{byte(correlation >> 24), byte(correlation >> 16), byte(correlation >> 8), byte(correlation)}
	if resp.IsFlexible() && resp.Key() != keyAPIVersions {
		raw = append(raw, 0)
	}
	return resp.AppendTo(raw)
}

// eachKind calls f with a default request of every key and version that the protocol library knows,
// but the one that has a header without a client id, which only brokers sent to each other.
func eachKind(f func(req kmsg.Request)) {
	for key := range int16(kmsg.MaxKey + 1) {
		req := kmsg.RequestForKey(key)
		if req == nil {
			continue
		}
		for version := range req.MaxVersion() + 1 {
			if key == 7 && version == 0 {
				continue
			}
			req := kmsg.RequestForKey(key)
			req.SetVersion(version)
			if d, ok := req.(interface{ Default() }); ok {
				d.Default()
			}
			f(req)
		}
	}
}

// TestEveryKind: the header of every request and reply is understood, and what follows it is
// exactly the body.
func TestEveryKind(t *testing.T) {
	kinds := 0
	eachKind(func(req kmsg.Request) {
		kinds++
		f, err := parseRequest(request(req, 7))
		if err != nil {
			t.Fatalf("key %d version %d: %v", req.Key(), req.GetVersion(), err)
		}
		if f.Key != req.Key() || f.Version != req.GetVersion() || f.Correlation != 7 || f.ClientID != testClient {
			t.Errorf("key %d version %d was read as %s", req.Key(), req.GetVersion(), f)
		}
		if !bytes.Equal(f.raw[f.body:], req.AppendTo(nil)) {
			t.Errorf("%s: the body is not where it was looked for", f)
		}
		if _, err := f.Request(); err != nil {
			t.Error(err)
		}
		resp := req.ResponseKind()
		resp.SetVersion(req.GetVersion())
		raw := reply(resp, 7)
		r := parseReply(raw, f)
		if _, body, err := r.header(); err != nil || !bytes.Equal(raw[body:], resp.AppendTo(nil)) {
			t.Errorf("%s: the body is not where it was looked for (%v)", r, err)
		}
		if _, err := r.Response(); err != nil {
			t.Error(err)
		}
	})
	if kinds < 200 {
		t.Errorf("only %d kinds of requests were tried", kinds)
	}
}

// TestRewriteEveryVersion: every address in a reply is replaced, whatever the version, and nothing
// else is changed.
func TestRewriteEveryVersion(t *testing.T) {
	p := startProxy(t, "127.0.0.1:1")
	want := p.Brokers()[0]
	tried := map[int16]int{}
	eachKind(func(req kmsg.Request) {
		f, err := parseRequest(request(req, 7))
		if err != nil {
			t.Fatal(err)
		}
		resp := req.ResponseKind()
		resp.SetVersion(req.GetVersion())
		fill(resp)
		r := parseReply(reply(resp, 7), f)
		if !advertises(r) {
			return
		}
		tried[r.Key]++
		if err := p.rewrite(r); err != nil {
			t.Fatal(err)
		}
		if correlation(r.raw) != 7 {
			t.Errorf("%s: the correlation id is now %d", r, correlation(r.raw))
		}
		got, err := r.Response()
		if err != nil {
			t.Fatal(err)
		}
		before, after := addresses(resp), addresses(got)
		if len(after) == 0 || len(after) != len(before) {
			t.Fatalf("%s: %d addresses, want %d", r, len(after), len(before))
		}
		for i, a := range after {
			if hostPort(*a.host, *a.port) != want {
				t.Errorf("%s names %s, want %s", r, hostPort(*a.host, *a.port), want)
			}
			*a.host, *a.port = *before[i].host, *before[i].port
		}
		if !bytes.Equal(got.AppendTo(nil), resp.AppendTo(nil)) {
			t.Errorf("%s: more than addresses was changed", r)
		}
	})
	for _, key := range []int16{KeyMetadata, KeyFindCoordinator, keyDescribeCluster, KeyProduce, KeyFetch} {
		if tried[key] == 0 {
			t.Errorf("%s was not tried", kmsg.NameForKey(key))
		}
	}
}

// fill gives a response the address 127.0.0.1:1 wherever it has room for one.
func fill(resp kmsg.Response) {
	switch resp := resp.(type) {
	case *kmsg.MetadataResponse:
		resp.Brokers = make([]kmsg.MetadataResponseBroker, 1)
	case *kmsg.FindCoordinatorResponse:
		if resp.Version >= 4 {
			resp.Coordinators = make([]kmsg.FindCoordinatorResponseCoordinator, 1)
		}
	case *kmsg.DescribeClusterResponse:
		resp.Brokers = make([]kmsg.DescribeClusterResponseBroker, 1)
	case *kmsg.ProduceResponse:
		resp.Brokers = make([]kmsg.ProduceResponseBroker, 1)
	case *kmsg.FetchResponse:
		resp.Brokers = make([]kmsg.FetchResponseBroker, 1)
	}
	for _, a := range addresses(resp) {
		*a.host, *a.port = "127.0.0.1", 1
	}
}

// FuzzFrames reads arbitrary bytes as a stream of requests and of replies to them. Whatever they
// are, nothing is read beyond the end, and a frame that is understood is the one that was there.
// Bodies are left alone: the protocol library that decodes them takes seconds for some inputs, and
// a test's brokers do not send such.
func FuzzFrames(f *testing.F) {
	for _, req := range []kmsg.Request{
		kmsg.NewPtrEndTxnRequest(), kmsg.NewPtrMetadataRequest(), kmsg.NewPtrProduceRequest(), kmsg.NewPtrFindCoordinatorRequest(),
	} {
		for _, version := range []int16{0, req.MaxVersion()} {
			req.SetVersion(version)
			resp := req.ResponseKind()
			resp.SetVersion(version)
			fill(resp)
			f.Add(appendFrame(nil, request(req, 1)), reply(resp, 1))
		}
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, []byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, requests, reply []byte) {
		stream := bytes.NewReader(requests)
		read := 0
		for {
			raw, err := readFrame(stream)
			if err != nil {
				if !errors.Is(err, errMalformed) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatal(err)
				}
				return
			}
			if framed := appendFrame(nil, raw); !bytes.HasPrefix(requests[read:], framed) {
				t.Fatal("what was read is not what was there")
			}
			read += 4 + len(raw)
			f, err := parseRequest(raw)
			if err != nil {
				continue
			}
			if f.body < -1 || f.body > len(raw) || len(f.ClientID) > len(raw) {
				t.Fatalf("%s: the body begins at %d of %d", f, f.body, len(raw))
			}
			if len(reply) >= 4 {
				if _, body, err := parseReply(reply, f).header(); err == nil && (body < 4 || body > len(reply)) {
					t.Fatalf("the body of the reply begins at %d of %d", body, len(reply))
				}
			}
		}
	})
}

// TestTruncatedFrames: a stream that ends inside a frame gives no frame, and a length that no frame
// has is refused.
func TestTruncatedFrames(t *testing.T) {
	whole := appendFrame(nil, request(kmsg.NewPtrEndTxnRequest(), 1))
	for n := range len(whole) + 1 {
		_, err := readFrame(bytes.NewReader(whole[:n]))
		switch {
		case n < len(whole) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF):
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		case n == len(whole) && err != nil:
			t.Error(err)
		}
	}
	for _, bad := range [][]byte{{0x7f, 0xff, 0xff, 0xff}, {0xff, 0, 0, 0}, {0, 0, 0, 3, 1, 2, 3}} {
		if _, err := readFrame(bytes.NewReader(bad)); !errors.Is(err, errMalformed) {
			t.Errorf("length %x: %v, want errMalformed", bad[:4], err)
		}
	}
}
