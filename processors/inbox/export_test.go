package inbox

// Kept returns opts with [Forever] in front, unless they say how long ids are kept.
func Kept(opts ...Option) []Option {
	var s settings
	for _, opt := range opts {
		if opt != nil {
			_ = opt(&s) // Dedupe reports what is wrong
		}
	}
	if s.retention.expires || s.retention.forever {
		return opts
	}
	return append([]Option{Forever()}, opts...)
}

// Expires reports whether the inbox has [Retain].
func (i Inbox[K, V]) Expires() bool { return i.retention.expires }
