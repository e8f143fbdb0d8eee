// Package queries carries views of stores between processes, and answers questions about their rows
// in JSON. It does not know who owns a task: its callers do.
//
// # A view over HTTP
//
// A view is a picture of one moment, and reading a store can take several lookups in it. So one
// request is one view: it stays open, and questions and answers alternate in its two bodies.
//
//	POST URL?store=S&partition=P&stale=true&standby=5s&at_least=TOPIC/PARTITION/OFFSET
//	                                     record_key=K in place of partition: the partition of its records
//	100                                  if the request has Expect: 100-continue
//	200                                  the head: At
//	                                     question, answer, question, answer, ...
//	the end of the request's body        the view is released
//	any other status                     a Refusal says why there is no view
//
// Head, questions and answers are JSON documents. Keys and values are bytes, in base64. A question
// is {"get":{"key":K}} or {"scan":{"from":K,"to":K,"reverse":true,"rows":N}}. An answer has a
// value, or rows and whether there are more, or a refusal. A reader goes on behind the last row
// that it has: the view does not change.
//
// # Contract
//
// [Server] takes a view for each request with the function that it is given, which decides whether
// it may be served. [Client.Open] returns a [View], which is a [state.View]: all that reads a local
// one can read it. Its errors are what the function of the client makes of a refusal, of a
// [StatusError] or of an error that wraps [ErrNoAnswer].
//
// [Rows] answers a question in JSON from any view, for stores of each kind.
//
// # Bounds
//
// A server has at most [ViewsMax] views open, refuses more, and releases one that is not asked for
// [IdleMax]. A client waits at most [AnswerMax] for an answer. A question has at most 3 MiB. An
// answer of a scan has at most about 256 KiB of rows, and at least one row. An answer in JSON has at
// most about 4 MiB of rows, and at least one row.
//
// # Concurrency
//
// A [Server] and a [Client] may be used by any number of goroutines, and so may a [View], whose
// questions wait for each other. There are no goroutines but those of net/http.
//
// # Failure
//
// A connection that ends, or an answer that does not come in time, ends the view: every later
// question fails. Nothing is asked again, because another view may be of another moment.
package queries
