package demo

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/onceward/onceward/bench/load"
)

// fact is one generated event as the generator knows it. The recount works on facts; the pipeline
// sees only their bytes.
type fact struct {
	partition int32
	account   string
	message   string
	capture   string
	reverses  string
	amount    int64
	version   int64
	// unreadable facts are no JSON, incomplete ones lack their correlation id.
	unreadable bool
	incomplete bool
	// spelling varies the JSON without changing what it says.
	spelling int
}

// Shape of the drill. The rest of the events are ordinary captures.
const (
	partitions      = 6
	accountsPerPart = 400
	// Per 10,000 events.
	perDuplicate      = 600
	perConflict       = 60
	perStale          = 150
	perGap            = 120
	perPoison         = 25
	perIncomplete     = 25
	perReversal       = 300
	perUnknownReverse = 10
	perRecaptured     = 60 // the same capture under a new message id
	perOvercaptured   = 20 // the same capture under a new message id with another amount
)

// book is what the generator has to remember to make events that refer to earlier ones.
type book struct {
	rng      *rand.Rand
	facts    []fact
	sent     [partitions][]int // indexes of ordinary captures, by partition
	versions map[string]int64
}

// generate makes n events. Equal arguments make equal events.
func generate(n int, seed uint64) []fact {
	b := &book{rng: rand.New(rand.NewPCG(seed, 0x6f6e6365)), versions: map[string]int64{}}
	for i := range n {
		b.facts = append(b.facts, b.next(i))
	}
	return b.facts
}

func (b *book) next(i int) fact {
	p := int32(b.rng.IntN(partitions))
	f := fact{
		partition: p, account: fmt.Sprintf("account-%d-%03d", p, b.rng.IntN(accountsPerPart)),
		message: fmt.Sprintf("message-%08d", i), capture: fmt.Sprintf("capture-%08d", i),
		amount: 1 + b.rng.Int64N(100_000), spelling: b.rng.IntN(3),
	}
	draw := b.rng.IntN(10_000)
	kind := func(share int) bool {
		hit := draw >= 0 && draw < share
		draw -= share
		return hit
	}
	switch {
	case kind(perPoison):
		f.unreadable = true
		return f
	case kind(perIncomplete):
		f.incomplete = true
		return f
	case kind(perUnknownReverse):
		f.reverses, f.amount = fmt.Sprintf("capture-x%07d", i), -f.amount
		f.version = b.advance(f.account, 1)
		return f
	case kind(perDuplicate):
		if earlier, ok := b.earlier(p); ok {
			earlier.spelling = b.rng.IntN(3)
			return earlier
		}
	case kind(perConflict):
		if earlier, ok := b.earlier(p); ok {
			earlier.amount++
			return earlier
		}
	case kind(perRecaptured):
		if earlier, ok := b.earlier(p); ok {
			f.account, f.capture, f.amount = earlier.account, earlier.capture, earlier.amount
			f.version = b.advance(f.account, 1)
			return f
		}
	case kind(perOvercaptured):
		if earlier, ok := b.earlier(p); ok {
			f.account, f.capture, f.amount = earlier.account, earlier.capture, earlier.amount+7
			f.version = b.advance(f.account, 1)
			return f
		}
	case kind(perReversal):
		if earlier, ok := b.earlier(p); ok {
			f.account, f.reverses, f.amount = earlier.account, earlier.capture, -earlier.amount
			f.version = b.advance(f.account, 1)
			return f
		}
	case kind(perStale):
		f.version = max(b.versions[f.account]-b.rng.Int64N(3), 1)
		b.versions[f.account] = max(b.versions[f.account], f.version)
		return f
	case kind(perGap):
		f.version = b.advance(f.account, 2+b.rng.Int64N(3))
		return f
	}
	f.version = b.advance(f.account, 1)
	b.sent[p] = append(b.sent[p], i)
	return f
}

func (b *book) advance(account string, by int64) int64 {
	b.versions[account] += by
	return b.versions[account]
}

// earlier picks an ordinary capture of the partition.
func (b *book) earlier(p int32) (fact, bool) {
	if len(b.sent[p]) == 0 {
		return fact{}, false
	}
	return b.facts[b.sent[p][b.rng.IntN(len(b.sent[p]))]], true
}

// start is the event time of the first event.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// record spells a fact out.
func (f fact) record(i int) load.Record {
	return load.Record{
		Partition: f.partition, Key: []byte(f.account), Value: f.bytes(),
		Timestamp: start.Add(time.Duration(i) * 10 * time.Millisecond),
	}
}

func (f fact) bytes() []byte {
	if f.unreadable {
		return []byte("{\"message_id\":\"" + f.message + "\",\xff\xfe")
	}
	correlation := `"correlation_id":"order-` + f.capture + `",`
	if f.incomplete {
		correlation = ""
	}
	kind, reverses := "capture", ""
	if f.reverses != "" {
		kind, reverses = "reversal", `,"reverses":"`+f.reverses+`"`
	}
	switch f.spelling {
	case 0:
		return fmt.Appendf(nil, `{"message_id":%q,%s"schema_version":1,"capture_request_id":%q,"kind":%q,"amount_minor":%d,`+
			`"version":%d,"fee_rate":1.5%s}`, f.message, correlation, f.capture, kind, f.amount, f.version, reverses)
	case 1: // another order, white space
		return fmt.Appendf(nil, "{ \"version\": %d,\n  \"amount_minor\": %d, %s \"kind\": %q,\t\"capture_request_id\": %q, "+
			"\"message_id\": %q, \"fee_rate\": 1.5, \"schema_version\": 1%s }",
			f.version, f.amount, correlation, kind, f.capture, f.message, reverses)
	default: // other spellings of numbers and characters
		return fmt.Appendf(nil, `{"schema_version":1,"fee_rate":15.0e-1,"message_id":"\u006dessage%s",%s"amount_minor":%d,`+
			`"version":%d,"capture_request_id":%q,"kind":%q%s}`,
			f.message[len("message"):], correlation, f.amount, f.version, f.capture, kind, reverses)
	}
}
