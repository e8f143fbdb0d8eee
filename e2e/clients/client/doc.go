// Package client is what the applications in e2e/clients have in common: each is one instance of an application that a test of Kafka's
// judges, a process that is started, killed and stopped by a scenario.
//
//	APPLICATION --brokers host:port[,host:port] --instance p1 --state-dir dir [--session-timeout 10s] [--log-level info]
//
// # What it prints
//
// Standard output has one line whenever one of these has changed, which it looks at twice a second:
//
//	state: RUNNING          all tasks that the group has given to this instance are open; there is at least one
//	state: REBALANCING      some are not, or there is none yet
//	state: ERROR            a task has stopped for good; the log says why
//	processed 1234 records  since this process started, all of them committed
//
// The other states are STARTING, STOPPING and STOPPED. Logs go to standard error. SIGTERM and SIGINT end it in
// order: what is open is committed and the group is left, the exit code is 0. It is 1 for any other end and 2
// for wrong arguments.
package client
