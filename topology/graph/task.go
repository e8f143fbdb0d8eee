package graph

import "strconv"

// TaskID names a task: one partition of one subtopology. Both parts are stable names, never
// positions in a builder.
type TaskID struct {
	Subtopology string
	Partition   int32
}

// String returns the subtopology and the partition with an underscore between them, such as
// "payments_3". The last underscore is the separator, because names may contain underscores too.
func (id TaskID) String() string {
	return id.Subtopology + "_" + strconv.Itoa(int(id.Partition))
}
