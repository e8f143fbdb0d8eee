package pebblestore

import "github.com/onceward/onceward/state"

// AlwaysBuffer lets scans and views have no influence on where rounds go, so that tests that look
// at everything after each round meet the buffer too.
func AlwaysBuffer(db state.Database) state.Database {
	db.(*database).directApplies = 0
	return db
}

// CompactEarly lets compactions begin with the first table, so that a short test has some.
func CompactEarly(o Options) Options {
	o.compactionTables = 1
	return o
}

// NeverBuffer sends every round straight into Pebble, for comparison.
func NeverBuffer(db state.Database) state.Database {
	db.(*database).direct = 1 << 62
	return db
}

// sublevels returns the number of overlapping tables in L0.
func (d *database) sublevels() int { return int(d.db.Metrics().Levels[0].Sublevels) }

// CloseDisk closes the part on the disk alone, as a fault would stop it.
func CloseDisk(db state.Database) error { return db.(*split).disk.Close() }
