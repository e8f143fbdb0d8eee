//go:build !onceward_next

package pebblestore

import "github.com/cockroachdb/pebble/v2"

// setNext adds what the next build has in every batch: see next_on.go.
func setNext(*pebble.Batch) error { return nil }
