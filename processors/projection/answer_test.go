package projection

import (
	"fmt"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/codectest"
)

func TestChoiceCodecs(t *testing.T) {
	keys := schemas.Codec[definedKey[string]](definedKeyCodec[string]{schemas.String()})
	codectest.Run(t, keys, definedKey[string]{Key: codectest.Canary, Definition: 1},
		definedKey[string]{Key: "\x00", Definition: 65535})
	codectest.Refuses(t, keys, definedKey[string]{Key: codectest.Canary + "\xff"})
	answers := schemas.Codec[Answer](answerCodec{})
	for d := Switched; d <= Repeated; d++ {
		codectest.Run(t, answers, Answer{
			Command: Command{ID: codectest.Canary, Action: Switch, From: 1, To: 65535, Force: true},
			Outcome: d, Reason: "x", Active: 2, Comparison: Comparison{Keys: 1 << 62}, Timestamp: -1,
		})
	}
	codectest.Refuses(t, answers, Answer{}, Answer{Outcome: 5})
	if _, err := (answerCodec{}).Decode(nil); err == nil {
		t.Error("nothing is an answer")
	}
	if s := fmt.Sprint(Switched, Verified, Refused, Repeated, Answered(5)); s !=
		"switched verified refused repeated answered(5)" {
		t.Error(s)
	}
}
