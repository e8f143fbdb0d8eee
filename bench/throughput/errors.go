package throughput

import "errors"

var (
	// ErrWrong says that the application's answer is wrong.
	ErrWrong = errors.New("the answer is wrong")
	// ErrUnusable says that topics, numbers or names that were given do not fit. Nothing was
	// measured.
	ErrUnusable = errors.New("this cannot be measured")
)
