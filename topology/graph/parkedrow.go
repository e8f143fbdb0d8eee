package graph

// The first bytes of the keys of rows in a store that topology.ParkKeys gives to a source.
const (
	// ParkedHead begins the row of a key: it says which records of the key wait.
	ParkedHead = 'h'
	// ParkedRecord begins the row of a record that waits.
	ParkedRecord = 'r'
)

// IsParkedRecord reports whether the row with that key has a record that waits, in a store that
// topology.ParkKeys gives to a source.
func IsParkedRecord(key []byte) bool { return len(key) > 0 && key[0] == ParkedRecord }
