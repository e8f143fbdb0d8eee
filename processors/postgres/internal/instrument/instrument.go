// Package instrument registers collectors of Prometheus that several values of one program share.
package instrument

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers a collector and returns it, or the one that is registered already under the
// same names. A nil registerer registers nothing: the collector counts for nobody.
func Register[C prometheus.Collector](registerer prometheus.Registerer, c C) (C, error) {
	if registerer == nil {
		return c, nil
	}
	err := registerer.Register(c)
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing, nil
		}
	}
	if err != nil {
		return c, fmt.Errorf("register metrics: %w", err)
	}
	return c, nil
}
