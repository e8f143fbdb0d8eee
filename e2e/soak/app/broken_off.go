//go:build !onceward_broken

package app

// brokenMessageID leaves the id as it is.
func brokenMessageID(_ inputRecord, id string) string { return id }
