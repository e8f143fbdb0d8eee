package figures

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// lan is a network on which instances have hosts of their own: a bridge, on which this process and
// the brokers have an address, and network namespaces that are connected with it.
type lan struct {
	t      *testing.T
	bridge string
	// subnet is the first three numbers of the addresses.
	subnet string
	hosts  []*host
}

// host is a network namespace.
type host struct {
	lan             *lan
	namespace, port string
	address         string
}

// newLAN makes a network of n hosts, which ends with the test. It skips the test where it must not
// do so.
func newLAN(t *testing.T, n int) *lan {
	t.Helper()
	if _, err := exec.LookPath("ip"); runtime.GOOS != "linux" || err != nil || os.Geteuid() != 0 {
		t.Skip("hosts need network namespaces: run this on Linux with ip(8), as root")
	}
	id := rand.IntN(1 << 16)
	// The addresses are those that RFC 2544 sets aside for measurements.
	l := &lan{t: t, bridge: fmt.Sprintf("ow%04x", id), subnet: fmt.Sprintf("198.%d.%d", 18+id>>8&1, id&0xff)}
	t.Cleanup(l.remove)
	l.ip("link", "add", l.bridge, "type", "bridge")
	l.ip("address", "add", l.address()+"/24", "dev", l.bridge)
	l.ip("link", "set", l.bridge, "up")
	l.ip("link", "add", l.nowhere(), "type", "bridge")
	for i := range n {
		h := &host{
			lan: l, namespace: fmt.Sprintf("%s-%d", l.bridge, i), port: fmt.Sprintf("%sp%d", l.bridge, i),
			address: fmt.Sprintf("%s.%d", l.subnet, 10+i),
		}
		l.hosts = append(l.hosts, h)
		l.ip("netns", "add", h.namespace)
		l.ip("link", "add", h.port, "type", "veth", "peer", "name", "eth0", "netns", h.namespace)
		l.ip("link", "set", h.port, "master", l.bridge, "up")
		for _, link := range []string{"lo", "eth0"} {
			l.ip("-n", h.namespace, "link", "set", link, "up")
		}
		l.ip("-n", h.namespace, "address", "add", h.address+"/24", "dev", "eth0")
	}
	return l
}

// address is that of this process and of the brokers.
func (l *lan) address() string { return l.subnet + ".1" }

// nowhere is a bridge that is down: it drops what its ports get.
func (l *lan) nowhere() string { return l.bridge + "x" }

func (l *lan) ip(args ...string) {
	l.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		l.t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// remove ends the network. A device in a namespace ends with it.
func (l *lan) remove() {
	for _, h := range l.hosts {
		if out, err := exec.Command("ip", "netns", "delete", h.namespace).CombinedOutput(); err != nil {
			l.t.Errorf("removing namespace %s: %v: %s", h.namespace, err, out)
		}
	}
	for _, bridge := range []string{l.bridge, l.nowhere()} {
		if out, err := exec.Command("ip", "link", "delete", bridge).CombinedOutput(); err != nil {
			l.t.Errorf("removing bridge %s: %v: %s", bridge, err, out)
		}
	}
}

// enter is the program that becomes a process on the host.
func (h *host) enter() []string { return []string{"ip", "netns", "exec", h.namespace} }

// cut drops every packet from and to the host. Neither side is told: both keep their link, and no
// connection closes.
func (h *host) cut() { h.lan.ip("link", "set", h.port, "master", h.lan.nowhere()) }

// mend is the end of cut.
func (h *host) mend() { h.lan.ip("link", "set", h.port, "master", h.lan.bridge) }
