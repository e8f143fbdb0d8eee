// Package waits reports for which open transactions a process waits: those that make committed
// offsets unstable, and those that block readers of a changelog or an input.
//
// # Contract
//
// A [Wait] belongs to one goroutine, which calls Still whenever it has looked and has to go on
// waiting, and Over when it has not. Once a wait has lasted for the bound of its [Waits], Still
// asks the leader of the partition what it holds open and the coordinators whose that is, and logs
// the answer. It asks again after each further bound. The pause between log lines doubles, except
// when a transaction turns out to hang. Waits for one partition share the question and the line.
// [Waits.All] has what is waited for now, for status and metrics.
//
// A wait never gives up. An ongoing transaction ends with its producer or by its timeout. One that
// hangs is ended by an operator, or by an instance that repairs what hangs (package hanging); the
// line names the command. A transaction that no coordinator names is neither: it can be an ongoing
// one whose transactional id this process may not describe.
//
// # Concurrency and failure
//
// Waits is safe for concurrent use and has no goroutines. A question that fails is part of the
// line, and ends no wait.
//
// # What it is not
//
// It is no measure of latency: most waits are over before the bound, and are not reported.
package waits

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/hanging"
)

// Holder is a transaction that a partition holds open.
type Holder struct {
	ProducerID  int64
	Epoch       int16
	FirstOffset int64
	// TransactionalID and State are what a coordinator says of the producer id now, empty if none
	// knows it.
	TransactionalID, State string
	// Known says that the coordinators tell whether the transaction is ongoing. Hanging says that
	// it is not: nothing ends it by itself.
	Known, Hanging bool
}

func (h Holder) String() string {
	text := fmt.Sprintf("producer id %d epoch %d since offset %d (", h.ProducerID, h.Epoch, h.FirstOffset)
	if h.Hanging {
		text += "hanging, "
	}
	switch {
	case h.TransactionalID != "":
	case h.Known:
		return text + "no coordinator knows it)"
	default:
		return text + "no coordinator names it: it hangs, or its transactional id may not be described)"
	}
	return text + fmt.Sprintf("%s is %s)", h.TransactionalID, h.State)
}

// Held is a partition with a transaction that is waited for.
type Held struct {
	Kind      Kind
	Topic     string
	Partition int32 // -1 until it is known
	// Since is when the oldest of the waits began.
	Since time.Time
	// Tasks are those that wait, sorted.
	Tasks []string
	// Looked is when the partition was last asked, zero before the first time.
	Looked time.Time
	// Holders are what holds it: first those that hang, then those that are not known to be
	// ongoing. Others is how many more there are. Unknown is why they are not known, empty if they
	// are.
	Holders []Holder
	Others  int
	Unknown string
}

// Hanging reports whether some transaction on the partition is known to hang.
func (h Held) Hanging() bool { return len(h.Holders) > 0 && h.Holders[0].Hanging }

// Ongoing reports whether all transactions on the partition are known to be ongoing.
func (h Held) Ongoing() bool {
	return len(h.Holders) > 0 && h.Holders[0].Known && !h.Holders[0].Hanging
}

// HeldBy says what holds the partition, empty before that was asked.
func (h Held) HeldBy() string {
	switch {
	case h.Looked.IsZero():
		return ""
	case h.Unknown != "":
		return "unknown: " + h.Unknown
	case len(h.Holders) == 0:
		return "none any more"
	}
	texts := make([]string, 0, len(h.Holders)+1)
	for _, holder := range h.Holders {
		texts = append(texts, holder.String())
	}
	if h.Others > 0 {
		texts = append(texts, fmt.Sprintf("%d more", h.Others))
	}
	return strings.Join(texts, ", ")
}

// holdersMax bounds how many transactions are named.
const holdersMax = 5

// level is that of the line. Producers of an input may have long transactions.
func (h Held) level() slog.Level {
	if h.Kind == Input && h.Unknown == "" && !h.Hanging() {
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// Look asks what a partition holds open. A negative number is the partition of the offsets of the
// group of c.
func Look(ctx context.Context, c *broker.Cluster, topic string, number int32) Held {
	return look(ctx, c, nil, topic, number)
}

func look(ctx context.Context, c *broker.Cluster, hangs func(int64, int16) bool, topic string, number int32) Held {
	ctx, cancel := context.WithTimeout(ctx, lookMax)
	defer cancel()
	seen := Held{Topic: topic, Partition: number, Looked: time.Now()}
	if number < 0 {
		found, err := c.OffsetsPartition(ctx)
		if err != nil {
			seen.Unknown = err.Error()
			return seen
		}
		seen.Partition = found
	}
	findings, err := hanging.Look(ctx, c, hanging.Search{Partitions: map[string][]int32{topic: {seen.Partition}}})
	if err != nil && len(findings) == 0 {
		seen.Unknown = err.Error()
		return seen
	}
	for _, f := range findings {
		h := Holder{ProducerID: f.ProducerID, Epoch: f.Epoch, FirstOffset: f.Open[0].FirstOffset, Known: f.Known(), Hanging: f.Hanging()}
		if f.Named != nil {
			h.TransactionalID, h.State = f.Named.TransactionalID, f.Named.State
		}
		if !h.Known && hangs != nil && hangs(f.ProducerID, f.Epoch) {
			h.Known, h.Hanging = true, true
		}
		seen.Holders = append(seen.Holders, h)
	}
	rank := func(h Holder) int {
		switch {
		case h.Hanging:
			return 0
		case !h.Known:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(seen.Holders, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.FirstOffset, b.FirstOffset))
	})
	if n := len(seen.Holders); n > holdersMax {
		seen.Holders, seen.Others = seen.Holders[:holdersMax], n-holdersMax
	}
	return seen
}
