package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// The ports that brokers listen on. They lie below the ranges from which the kernels in use give
// ports to outgoing connections (Linux from 32768, others from 49152): a broker that is down for a
// restart must find its port free again, while clients are busily connecting from ports of that
// range.
const (
	firstPort = 20000
	lastPort  = 31999
)

const loopback = "127.0.0.1"

// freePorts returns n different ports of a host on which no process listened a moment ago. Another
// process can be quicker to take one; callers try again with others then.
func freePorts(host string, n int) ([]int, error) {
	var ports []int
	var lastErr error
	for tries := 0; len(ports) < n; tries++ {
		if tries == 1000 {
			return nil, fmt.Errorf("find a free port from %d to %d: %w", firstPort, lastPort, lastErr)
		}
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		l, err := net.Listen("tcp", hostPort(host, port))
		if err != nil {
			lastErr = err
			continue
		}
		// Held until all are found, so that none is found twice.
		defer func() { _ = l.Close() }()
		ports = append(ports, port)
	}
	return ports, nil
}

func hostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
