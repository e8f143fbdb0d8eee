package admin

// skipGroupCheck is set by a negative control only: without the look at the group the broker has to
// refuse.
var skipGroupCheck bool
