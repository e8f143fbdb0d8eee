package graph

// GaugeReading is the value of a gauge of a node.
type GaugeReading struct {
	Node, Name string
	Value      int64
}

// Parked says how many records of a source are parked.
type Parked struct {
	// Topic is the source topic, by its name on the cluster. Store has the parked records.
	Topic, Store string
	// Keys is the number of keys that are parked, and Records that of their records.
	Keys, Records int64
	// Emptied counts how often the last parked key was released. The graph needs it after an
	// aborted round.
	Emptied int
}
