package graph

// GaugeReading is what a gauge shows.
type GaugeReading struct {
	Node, Name string
	Value      int64
}

// Parked says how many records of a source wait behind a failed one, that one included.
type Parked struct {
	// Topic is the source's, by its name on the cluster. Store is the store where they wait.
	Topic, Store string
	// Keys is how many keys are parked, Records how many records wait.
	Keys, Records int64
	// Emptied counts how often the last parked key went. The graph needs it back when a round was aborted.
	Emptied int
}
