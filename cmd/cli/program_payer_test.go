package cli_test

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// payout is what the payer is asked for.
type payout struct {
	ID     string `json:"id"`
	Secret string `json:"secret"`
}

// payerTopology pays, and people decide about payouts with an unknown outcome. It ignores decisions
// of mallory.
func payerTopology() *topology.Topology {
	b := topology.NewBuilder("payer", topology.DeadLetters("dead"))
	in := topology.From(b, topology.Topic("payouts", schemas.String(), schemas.JSON[payout]()))
	payouts := effect.Perform(in, "payouts", func(r topology.Record[string, payout]) (effect.Request, error) {
		payload, err := json.Marshal(r.Value)
		return effect.Request{ID: r.Value.ID, Type: "payout", Target: "bank", Payload: payload}, err
	}, pay)
	payouts.Completed().Into(topology.Topic("paid", schemas.String(), schemas.JSON[effect.Result]()))
	payouts.Unknown().Into(topology.Topic("unknown", schemas.String(), schemas.JSON[effect.Result]()))
	said := topology.From(b, topology.Topic("resolutions", schemas.String(), schemas.JSON[effect.Resolution]()))
	heard := said.Peek("heard", func(r topology.Record[string, effect.Resolution]) error {
		if r.Value.By == "mallory" {
			return topology.Fail(topology.Validation, schemas.Reason("it is mallory who says so"))
		}
		return nil
	})
	effect.Resolve(payouts, heard, "people")
	return mustBuild(b)
}

// pay has no answer to the first call of a payout that is lost.
func pay(_ context.Context, c effect.Call) ([]byte, error) {
	if strings.HasPrefix(c.ID, "lost") && c.Attempt == 1 {
		return nil, context.DeadlineExceeded
	}
	return []byte("receipt"), nil
}
