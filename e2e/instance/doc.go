// Package instance lets tests run applications: in the test's process ([Start]), and in one of their own ([Launch]), which can be
// killed and frozen. On virtual time an application in the test's process can be killed too ([App.Kill]), and frozen by a stall of its host.
//
// # Ends
//
// Each life is one [App] or one [Process]. It belongs to its test and is over when the test is, passed or failed: what still runs then is
// stopped, or killed. A test that wants to know how a life ended asks it; the end of an App that nobody has asked about must have been in
// order.
//
// # Waits
//
// What a life has to come to is waited for by its own methods; [Await] is for what shows elsewhere, such as in what it has written. All of
// them end with [Patience], and when nobody is left who could bring it about.
//
// # Logs
//
// What an application says goes to a [Log], which is shown if the test fails, and at once where ONCEWARD_TEST_LOG is set. A test may
// look into it, and wait for lines.
//
// # Programs
//
// A process is a program that [Build] has made, once for all tests of a package, or the test binary itself (see bench/measure, whose Run
// and UntilTold are the other side of both: a process that ends in order at SIGTERM, and at once when the test is gone).
//
// # What it is not
//
// A process that is started again and again under one name is bench/measure's Instance, or, of the applications that Kafka's tests judge,
// that of e2e/clients/process. Nothing here knows what an application computes.
package instance
