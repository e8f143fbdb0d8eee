package txn

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/txn/internal/console"
)

// settings returns the settings as the console shows them. Names of users, secrets and the files
// that hold them are left out, because the console has no authentication.
func (c Config) settings() []console.Setting {
	encrypted := "plain TCP"
	switch {
	case c.Security.TLS.On() && c.Security.TLS.InsecureSkipVerify:
		encrypted = "TLS, brokers not verified"
	case c.Security.TLS.On():
		encrypted = "TLS"
	}
	peers := c.peersListen()
	switch {
	case peers == PeersOff:
	case c.Peers.CertFile != "":
		peers += ", mutual TLS"
	case c.Peers.SecretFile != "":
		peers += ", shared secret"
	default:
		peers += ", no authentication"
	}
	modesBefore := make([]string, len(c.ModesBefore))
	for i, m := range c.ModesBefore {
		modesBefore[i] = m.String()
	}
	return []console.Setting{
		{Name: "Brokers", Value: strings.Join(c.Brokers, ", ")},
		{Name: "Security", Value: encrypted + ", " + cmp.Or(string(c.Security.SASL.Mechanism), "no SASL")},
		{Name: "StateDir", Value: c.StateDir},
		{Name: "Mode", Value: c.Mode.String()},
		{Name: "ModesBefore", Value: cmp.Or(strings.Join(modesBefore, ", "), "none")},
		{Name: "Workers", Value: strconv.Itoa(c.Workers)},
		{Name: "CommitIntervalMax", Value: c.CommitIntervalMax.String()},
		{Name: "MarkersPerSecondMax", Value: limit(c.MarkersPerSecondMax, strconv.Itoa)},
		{Name: "RoundBytesMax", Value: sizeText(c.RoundBytesMax)},
		{Name: "QueueBytesMax", Value: sizeText(c.QueueBytesMax)},
		{Name: "Compression", Value: string(c.Compression)},
		{Name: "OrderWaitMax", Value: limit(c.OrderWaitMax, time.Duration.String)},
		{Name: "MaxFutureTimestamp", Value: limit(c.MaxFutureTimestamp, time.Duration.String)},
		{Name: "CacheBytes", Value: sizeText(c.CacheBytes)},
		{Name: "RestoreBytesMax", Value: sizeText(c.RestoreBytesMax)},
		{Name: "TransactionTimeout", Value: c.TransactionTimeout.String()},
		{Name: "SessionTimeout", Value: c.SessionTimeout.String()},
		{Name: "ConnectTimeout", Value: c.ConnectTimeout.String()},
		{Name: "InternalReplicas", Value: clusters(int(c.InternalReplicas))},
		{Name: "InternalMinInSync", Value: clusters(c.InternalMinInSync)},
		{Name: "AcceptLostRows", Value: strconv.FormatBool(c.AcceptLostRows)},
		{Name: "Remain", Value: strconv.FormatBool(c.Remain)},
		{Name: "FailFast", Value: strconv.FormatBool(c.FailFast)},
		{Name: "Standbys", Value: strconv.Itoa(c.Standbys)},
		{Name: "StandbyBytesPerSecondMax", Value: bound(c.StandbyBytesPerSecondMax)},
		{Name: "StandbyDiskMax", Value: bound(c.StandbyDiskMax)},
		{Name: "Rack", Value: cmp.Or(c.Rack, "none")},
		{Name: "Peers", Value: peers},
		{Name: "RepairTransactions", Value: strconv.FormatBool(c.RepairTransactions)},
		{Name: "HTTP", Value: cmp.Or(c.HTTP, "off")},
		{Name: "HTTPExposed", Value: strconv.FormatBool(c.HTTPExposed)},
		{Name: "Console", Value: c.Console.text()},
		{Name: "NoControl", Value: strconv.FormatBool(c.NoControl)},
	}
}

// limit returns a setting whose negative values are no limit.
func limit[T int | time.Duration](value T, text func(T) string) string {
	if value < 0 {
		return "no limit"
	}
	return text(value)
}

// bound returns a size of which zero is no bound.
func bound(bytes int64) string {
	if bytes == 0 {
		return "no bound"
	}
	return sizeText(bytes)
}

// clusters returns a setting whose zero is the cluster's own value.
func clusters(n int) string {
	if n == 0 {
		return "the cluster's"
	}
	return strconv.Itoa(n)
}

// sizeText returns a number of bytes in the largest unit that shows it exactly.
func sizeText(bytes int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if bytes >= unit.size && bytes%unit.size == 0 {
			return fmt.Sprintf("%d %s", bytes/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// text returns what the console shows and does beside its defaults.
func (c Console) text() string {
	var parts []string
	for _, p := range []struct {
		on   bool
		name string
	}{{c.DeadLetters != nil, "dead letters"}, {c.Contents, "contents of records"}, {c.Actions, "actions"}} {
		if p.on {
			parts = append(parts, p.name)
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "read-only")
}
