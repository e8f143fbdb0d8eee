// Package loopback tells addresses that only this machine reaches, as far as their form tells: a
// name other than localhost is none, whatever it resolves to.
package loopback

import (
	"net"
	"strings"
)

// Host reports whether a host is localhost or a loopback address.
func Host(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Address reports whether the host of host:port is one.
func Address(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && Host(host)
}
