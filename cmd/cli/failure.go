package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/cmd/internal/demo"
	"github.com/onceward/onceward/cmd/internal/yamldoc"
	"github.com/onceward/onceward/cmd/pipeline"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// The exit codes. The package documentation says what they mean.
const (
	codeDone      = onceward.ExitDone
	codeFailed    = onceward.ExitFailed
	codeUsage     = onceward.ExitUsage
	codeIntegrity = onceward.ExitIntegrity
)

// usageError is a mistake in flags, environment, configuration or files that they name.
type usageError struct{ err error }

func usage(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// report says what went wrong, if anything did, and returns the exit code.
func (p *process) report(err error) int {
	if err == nil {
		return codeDone
	}
	prefix := p.name + ": "
	if isFilePlace(err) {
		// file:line:column comes first, where editors look for it.
		prefix = ""
	}
	for line := range strings.Lines(err.Error()) {
		// There is no other place to report an error of this write.
		_, _ = fmt.Fprintf(p.err, "%s%s\n", prefix, strings.TrimSpace(line))
	}
	return codeOf(err)
}

func isFilePlace(err error) bool {
	_, isPipeline := errors.AsType[*pipeline.Error](err)
	_, isConfig := errors.AsType[*yamldoc.Error](err)
	return isPipeline || isConfig
}

func codeOf(err error) int {
	_, isUsage := errors.AsType[*usageError](err)
	_, isSetting := errors.AsType[*txn.ConfigError](err)
	switch {
	case isUsage, isSetting, isFilePlace(err), errors.Is(err, state.ErrForeign), errors.Is(err, state.ErrFormat):
		return codeUsage
	case isIntegrity(err):
		return codeIntegrity
	}
	return codeFailed
}

// isIntegrity reports whether what is stored is damaged or contradicts itself: another start will
// not help, and going on could make it worse.
func isIntegrity(err error) bool {
	if errors.Is(err, state.ErrCorrupt) || errors.Is(err, state.ErrBase) || errors.Is(err, txn.ErrIntegrity) ||
		errors.Is(err, demo.ErrDiffers) || errors.Is(err, errDiffers) || errors.Is(err, errNotMade) ||
		errors.Is(err, errBalances) {
		return true
	}
	// A permission, a missing topic or a record is no cause of such a stop, unless the record says
	// so itself.
	failure, isRecord := errors.AsType[*topology.Failure](err)
	return isRecord && failure.Class == topology.Corruption
}
