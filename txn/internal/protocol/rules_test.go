package protocol

// rule is something that holds at every step of every run. The model checks them one by one and
// every one has a control, a broken machine that breaks it (control_test.go).
type rule string

const (
	ruleFlushedFirst   rule = "a round produces when the flush of the one before returned clean"
	ruleOneTransaction rule = "a producer begins when its old transaction is over and its answers are known"
	ruleNumbersRise    rule = "no number is used for two transactions"
	ruleOneFront       rule = "a round is sealed when it has work, is due, and nothing is in flight"
	ruleCleanFlush     rule = "offsets are sent after a clean flush"
	ruleAcceptedFirst  rule = "the commit is sent once, when all offsets are accepted"
	ruleOlderApplied   rule = "offsets, commit and apply come when the round before is answered and applied"
	ruleNoAbortAfter   rule = "an abort is no answer to a commit that was sent"
	ruleNoNeed         rule = "only what failed or was dropped is aborted or settled"
	ruleTopFirst       rule = "what was computed on top of a failed round is aborted first"
	ruleSettledFirst   rule = "the log is asked when the round is in doubt and its producer was settled"
	ruleCommittedOnly  rule = "only what is known to be committed is applied"
	ruleInOrder        rule = "rounds are applied in order, each to the store that it was computed upon"
	ruleRetireApplied  rule = "a round is retired when it is applied"
	ruleRerunAborted   rule = "a round runs again once, when it is known to be aborted"
	ruleRerunOrder     rule = "the journals end up as front, back, queue"
	ruleGivenUp        rule = "a round that was dropped, or holds a task that was given up, can only abort"
	ruleOneAtATime     rule = "the effects of one round are answered one after the other"
	ruleSameRounds     rule = "the machine's rounds are those that its effects made"
	ruleProgress       rule = "what is held back is held back by something that will be answered"
	ruleCompute        rule = "CanCompute is true exactly when no round is failing or on its way out"
	ruleBase           rule = "an entry is computed upon the one before it"
)

var rules = []rule{
	ruleFlushedFirst, ruleOneTransaction, ruleNumbersRise, ruleOneFront, ruleCleanFlush, ruleAcceptedFirst,
	ruleOlderApplied, ruleNoAbortAfter, ruleNoNeed, ruleTopFirst, ruleSettledFirst, ruleCommittedOnly,
	ruleInOrder, ruleRetireApplied, ruleRerunAborted, ruleRerunOrder, ruleGivenUp, ruleOneAtATime,
	ruleSameRounds, ruleProgress, ruleCompute, ruleBase,
}
