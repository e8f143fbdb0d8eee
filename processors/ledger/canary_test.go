package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/schemas/codectest"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// TestNoPayloadInFailures makes records fail in every possible way. Their key, id, amounts and
// headers hold a canary. The test looks for the canary in the headers of the dead letter and in the
// error of a stopped task.
func TestNoPayloadInFailures(t *testing.T) {
	const amount = 8_317_264_509
	id := codectest.Canary
	ways := map[string]struct {
		c   ledger.Contribution
		err error
		row string
		opt ledger.Option
	}{
		"error":           {err: errors.New(codectest.Canary)},
		"missing":         {c: ledger.Contribution{Amounts: []int64{amount}}},
		"too long":        {c: ledger.Contribution{ID: strings.Repeat(id, 100), Amounts: []int64{amount}}},
		"not UTF-8":       {c: ledger.Contribution{ID: id + "\xff", Amounts: []int64{amount}}},
		"corrects":        {c: ledger.Contribution{ID: id, Amounts: []int64{amount}, Corrects: id + "?"}},
		"corrects bytes":  {c: ledger.Contribution{ID: id, Amounts: []int64{amount}, Corrects: id + "\xff"}},
		"corrects itself": {c: ledger.Contribution{ID: id, Amounts: []int64{amount}, Corrects: id}},
		"columns":         {c: ledger.Contribution{ID: id, Amounts: []int64{amount, amount}}},
		"conflict": {c: ledger.Contribution{ID: id, Amounts: []int64{amount}},
			row: "\x01\x01" + strings.Repeat("\x00", 16)},
		"reverses nothing": {c: ledger.Contribution{ID: id, Reverses: id + "?"}},
		"reverses itself":  {c: ledger.Contribution{ID: id, Reverses: id}},
		"both":             {c: ledger.Contribution{ID: id, Reverses: id + "1", Corrects: id + "2"}},
		"too many places":  {c: ledger.Contribution{ID: id, Decimals: []ledger.Decimal{{Units: amount, Scale: 2}}}},
		"payload": {c: ledger.Contribution{ID: id, Amounts: []int64{amount}},
			opt: ledger.PayloadHash(func(entry) (h [32]byte, err error) { return h, errors.New(codectest.Canary) })},
		"other payload": {c: ledger.Contribution{ID: id, Amounts: []int64{amount}}, opt: ledger.ComparePayload(),
			row: "\x03\x01" + strings.Repeat("\x00", 8) + "\x00\x00\x00\x01\xef\xbf\x62\x7d" + strings.Repeat("x", 32)},
		"corrupt": {c: ledger.Contribution{ID: id, Amounts: []int64{amount}}, row: codectest.Canary},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			d := processortest.New(t, func(b *topology.Builder) {
				read := func(entry) (ledger.Contribution, error) { return way.c, way.err }
				var opts []ledger.Option
				if way.opt != nil {
					opts = append(opts, way.opt)
				}
				ledger.Post(topology.From(b, entryTopic), "ledger", read, opts...)
			})
			if way.row != "" {
				d.SetRow("ledger-contributions", codectest.Canary+"\x00\x01"+id, way.row)
			}
			value := fmt.Sprintf(`{"id":%q,"amounts":[%d]}`, id, amount)
			err := d.PipeRaw("entries", []byte(codectest.Canary), []byte(value),
				topologytest.Header("x", codectest.Canary))
			letters := d.Take("dead")
			processortest.WantSilence(t, err, letters, "x", codectest.Canary)
			processortest.WantSilence(t, err, letters, "x", fmt.Sprint(amount))
		})
	}
}
