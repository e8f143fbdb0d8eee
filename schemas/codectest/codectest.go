package codectest

import (
	"sync"
	"testing"

	"github.com/onceward/onceward/schemas"
)

// Canary is a word that no error may contain. Pass values that contain it to
// [Run], where T has room for text.
const Canary = "kanarienvogel"

// CanaryNumber is to numbers what [Canary] is to text. It fits no 64-bit integer,
// so a codec that quotes numbers out of range gives itself away.
const CanaryNumber = "31415926535897932384626433832795"

// Run checks that codec keeps the contract of schemas.Codec for the given values, at least one:
//   - round trip, determinism, and Append as append
//   - nothing retained, and input unchanged
//   - no panic, no payload in errors and typed errors, for truncated and corrupted input
//   - use from several goroutines
//   - of a schemas.Lender: Lend gives what Decode gives, and leaves its input alone
//
// Values are compared with reflect.DeepEqual, so NaN is not allowed.
//
// The suite tries each encoding at each of its bytes in several ways; values whose
// encodings are longer than a few hundred bytes make it slow.
func Run[T any](t *testing.T, codec schemas.Codec[T], values ...T) {
	t.Helper()
	if len(values) == 0 {
		t.Fatal("codectest: Run needs a value")
	}
	report(t, "name", checkName(codec))
	for _, v := range values {
		report(t, "append", checkAppend(codec, v))
		report(t, "round trip", checkRoundTrip(codec, v))
		report(t, "retention", checkRetention(codec, v))
		report(t, "hostile input", checkHostile(codec, v))
		report(t, "views", checkLend(codec, v))
	}
	t.Run("concurrent", func(t *testing.T) {
		// Small on purpose: it is the race detector that judges it.
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for _, v := range values {
					report(t, "concurrent round trip", checkRoundTrip(codec, v))
				}
			})
		}
		wg.Wait()
	})
}

// Refuses checks that codec refuses to append each of the given values, with an
// error as the contract wants it, and leaves dst as it was.
func Refuses[T any](t *testing.T, codec schemas.Codec[T], values ...T) {
	t.Helper()
	if len(values) == 0 {
		t.Fatal("codectest: Refuses needs a value")
	}
	for _, v := range values {
		report(t, "refusal", checkRefusal(codec, v))
	}
}

func report(t *testing.T, check string, problems []string) {
	t.Helper()
	for _, problem := range problems {
		t.Errorf("%s: %s", check, problem)
	}
}
