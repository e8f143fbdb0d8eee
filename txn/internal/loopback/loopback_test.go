package loopback_test

import (
	"testing"

	"github.com/onceward/onceward/txn/internal/loopback"
)

func TestAddress(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true, "LocalHost:1": true, "[::ffff:127.0.0.1]:1": true,
		"10.0.0.1:1": false, "[::]:1": false, "0.0.0.0:1": false, ":1": false, "kafka:1": false, "localhost.example:1": false,
		"127.0.0.1": false, "localhost": false, "": false, // no port
	} {
		if got := loopback.Address(address); got != want {
			t.Errorf("%q: %t", address, got)
		}
	}
	if !loopback.Host("localhost") || loopback.Host("") || loopback.Host("127.0.0.1:1") {
		t.Error("a host is localhost or an IP address")
	}
}
