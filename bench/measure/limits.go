package measure

import (
	"os"
	"slices"
	"strings"
)

// Limits are the variables of the environment that bound what Go's runtime takes, as far as they
// are set. Children inherit them.
type Limits map[string]string

// LimitsNow returns the limits of this process.
func LimitsNow() Limits {
	limits := Limits{}
	for _, name := range []string{"GOMAXPROCS", "GOGC", "GOMEMLIMIT"} {
		if value := os.Getenv(name); value != "" {
			limits[name] = value
		}
	}
	return limits
}

// String is empty if nothing is set.
func (l Limits) String() string {
	var out []string
	for name, value := range l {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}
