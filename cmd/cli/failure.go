package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/cmd/internal/demo"
	"github.com/onceward/onceward/cmd/internal/yamldoc"
	"github.com/onceward/onceward/cmd/pipeline"
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
	switch {
	case isUsage, isFilePlace(err):
		return codeUsage
	case errors.Is(err, demo.ErrDiffers), errors.Is(err, errDiffers), errors.Is(err, errTableDiffers), errors.Is(err, errNotMade), errors.Is(err, errBalances):
		return codeIntegrity
	}
	return onceward.ExitCode(err)
}
