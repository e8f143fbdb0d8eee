package topology

import "time"

// RetryTopic returns the name of the delayed retry topic of the source for a delay (see [RetryTopics]), in an
// application. It does not say whether the source has it.
func (s Source) RetryTopic(application string, delay time.Duration) string {
	return topicRef{name: s.Topic + retryInfix + delay.String(), repartition: true}.on(application)
}

// DelayedFrom returns the offset at which the record of a delayed retry topic was read first, in the source's
// partition of the same number, of the record's headers. ok is false if they are not those of such a record.
func DelayedFrom(headers []Header) (offset int64, ok bool) {
	in := Input{Headers: headers}
	if restoreDelayed(&in) != nil {
		return 0, false
	}
	return in.Offset, true
}
