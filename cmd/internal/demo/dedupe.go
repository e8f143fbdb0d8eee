//go:build !onceward_broken_dedupe

package demo

// messageID is what the inbox dedupes by.
func messageID(r event) (string, error) { return r.Value.MessageID, nil }
