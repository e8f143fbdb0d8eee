//go:build !onceward_next

package assign

// The version of the user data; the package documentation says what each half means.
const (
	formatMajor = 1
	formatMinor = 3
)

// appendNext adds what the next build has: see next_on.go.
func appendNext(out []byte) []byte { return out }
