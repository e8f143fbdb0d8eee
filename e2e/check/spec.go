package check

import "time"

// Spec says what the application does, as far as a history can be judged by it.
type Spec struct {
	// Input is the source topic.
	Input string
	// Repartition is the topic between the two halves of the application, empty if there is none.
	// What it holds is judged as an output of the first half, and is the input of the second.
	Repartition string
	Outputs     []Output
	Stores      []Store
	// OpenMax is how long a last stable offset may stay behind: the transaction timeout and a
	// margin.
	OpenMax time.Duration
}

// Which says which inputs have a record in an output topic.
type Which uint8

// The kinds of outputs. Every one has exactly one record for each of its inputs.
const (
	// Deliveries are all inputs but poison.
	Deliveries Which = iota + 1
	// Messages are the first deliveries of each message.
	Messages
	// Repeats are the other deliveries.
	Repeats
	// Poison are the inputs that have to end as dead letters.
	Poison
)

// Grouping says within what the order of the inputs is kept, and what totals are kept by.
type Grouping uint8

// The groupings.
const (
	// ByPartition keeps the order of the whole input partition.
	ByPartition Grouping = iota
	ByKey
	// ByOther is the key of the repartitioning. Order is then kept among the inputs of one
	// partition.
	ByOther
)

// Output is a topic that the application writes.
type Output struct {
	Topic string
	// From is the topic that its records are made from: Spec.Input or Spec.Repartition.
	From  string
	Which Which
	By    Grouping
	// Totals says that records carry running totals of the grouping.
	Totals bool
	// Store is the store whose changelog must have a record in every transaction that writes to the
	// topic, empty if there is none.
	Store string
}

// Store is a store of the application.
type Store struct {
	Name      string
	Changelog string
	// From is the topic that it is the fold of.
	From string
	// By is what its totals are kept by. IDs says that it holds the ids of messages instead.
	By  Grouping
	IDs bool
	// Deliveries says that every delivery counts, because there is no inbox before the store.
	Deliveries bool
	// Opaque says that only the changelog is compared: what its rows mean is not known here.
	Opaque bool
}

// changelogs returns the topics of the stores.
func (s Spec) changelogs() map[string]int {
	topics := map[string]int{}
	for i, st := range s.Stores {
		topics[st.Changelog] = i
	}
	return topics
}
