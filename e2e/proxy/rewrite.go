package proxy

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// errListen says that a broker which a reply names cannot get a listener.
var errListen = errors.New("cannot stand in front of a broker")

// rewrite replaces the brokers' addresses in a reply with ours.
func (p *Proxy) rewrite(f *Frame) error {
	if !advertises(f) {
		return nil
	}
	resp, err := f.Response()
	if err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	changed := false
	for _, a := range addresses(resp) {
		if *a.port <= 0 {
			continue // no broker: the reply is an error
		}
		if *a.host, *a.port, err = p.advertised(*a.host, *a.port); err != nil {
			return fmt.Errorf("%w of %s: %w", errListen, f, err)
		}
		changed = true
	}
	if !changed {
		return nil
	}
	_, body, err := f.header()
	if err != nil {
		return err
	}
	f.raw = resp.AppendTo(f.raw[:body:body])
	return nil
}

// advertises says whether replies of this kind can name brokers by address. Those to Produce and
// Fetch do from these versions on, when a partition has moved (KIP-951).
func advertises(f *Frame) bool {
	switch f.Key {
	case KeyMetadata, KeyFindCoordinator, keyDescribeCluster:
		return true
	case KeyProduce:
		return f.Version >= 10
	case KeyFetch:
		return f.Version >= 16
	}
	return false
}

// address points into a reply.
type address struct {
	host *string
	port *int32
}

func addresses(resp kmsg.Response) []address {
	var out []address
	switch resp := resp.(type) {
	case *kmsg.MetadataResponse:
		for i := range resp.Brokers {
			out = append(out, address{&resp.Brokers[i].Host, &resp.Brokers[i].Port})
		}
	case *kmsg.FindCoordinatorResponse:
		if resp.Version < 4 {
			return []address{{&resp.Host, &resp.Port}}
		}
		for i := range resp.Coordinators {
			out = append(out, address{&resp.Coordinators[i].Host, &resp.Coordinators[i].Port})
		}
	case *kmsg.DescribeClusterResponse:
		for i := range resp.Brokers {
			out = append(out, address{&resp.Brokers[i].Host, &resp.Brokers[i].Port})
		}
	case *kmsg.ProduceResponse:
		for i := range resp.Brokers {
			out = append(out, address{&resp.Brokers[i].Host, &resp.Brokers[i].Port})
		}
	case *kmsg.FetchResponse:
		for i := range resp.Brokers {
			out = append(out, address{&resp.Brokers[i].Host, &resp.Brokers[i].Port})
		}
	}
	return out
}
