package admin

// skipGroupCheck is set by the negative control of the tests: without the look at the group the broker has to refuse.
var skipGroupCheck = false
