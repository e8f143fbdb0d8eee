// Package instance lets tests run applications: in the test's process ([Start]), and in one of
// their own ([Launch]), which can be killed and frozen. On virtual time an application in the
// test's process can be killed and frozen too ([StartOn]).
//
// # Ends
//
// Each life is one [App] or one [Process]. It belongs to its test and is over when the test is,
// passed or failed: what still runs then is stopped, or killed. A test that wants to know how a
// life ended asks it; the end of an App that no test has asked about must have been in order.
//
// A [Victim] is a life to which faults happen: an App on virtual time, a Process elsewhere.
//
// # Waits
//
// What a life has to come to is waited for by its own methods; [Await] is for what shows elsewhere,
// such as in what it has written. All of them end with [Patience], and when no life is left that
// could bring it about.
//
// # Logs
//
// What an application says goes to a [Log], which is shown if the test fails, and at once where
// ONCEWARD_TEST_LOG is set. A test may look into it, and wait for lines.
//
// # Programs
//
// A process runs a program that is in the test binary: TestMain gives the [Programs] of its package
// to [Main], and [Program] returns a path under which the binary is that program. So a program is
// built with what the tests are built with, and costs no further build. [Application] is the
// program that runs one instance of an application.
//
// # Failpoints
//
// An [Application] in a process of its own fails where [ArmingVariable] says, and an application of
// [StartOn] where its argument says. Package txn knows nothing of the variable. The form of both is
//
//	point=action[,skip=N][,times=N][;point=action...]
//
// where action is
//
//	kill             SIGKILL to the own process. On virtual time the host is cut off, and the goroutine waits for [App.Kill]
//	freeze           SIGSTOP to the own process, which the test ends with SIGCONT. On virtual time the host is stalled, and the goroutine
//	                 waits for [App.Thaw]
//	error            the outcome of the request is not known
//	refuse           the broker refused. The same as error where the difference means nothing
//	delay:DURATION   the goroutine waits until DURATION is over or the context of the caller ends
//	stall:DURATION   the goroutine waits, whatever the context does
//
// skip lets the first N hits pass. After times (default 1) more the point does nothing. Each hit
// that acts is logged as "failpoint POINT ACTION", by a process on its standard error, so that a
// test can count what it has caused. Failpoints need the build tag onceward_failpoints. Without it
// a program runs as long as both variables are empty. With both empty it runs as in production also
// with the tag; [ArmNothing] is for a test that wants databases flushed early.
//
// # What it is not
//
// A process that is started again and again under one name is bench/measure's Instance, or package
// workload's Process. Nothing here knows what an application computes.
package instance
