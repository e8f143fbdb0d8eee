// Package evidence keeps what processors have decided, so that an operator can be told why a row is
// as it is: from which record, by which program, with which outcome.
//
//	audit := evidence.Topic("payments.audit")
//	once := inbox.Dedupe(events, "inbox", eventID, inbox.Forever())
//	evidence.Record(once.Decisions(), "inbox-audit", audit)
//
// onceward explain reads the topic.
//
// # Contract
//
// A topic of evidence has one record for each decision of the processors that are recorded into it,
// in the transaction of the decision: there is no decision without its evidence, and no evidence of
// a decision that was undone. A record that fails has no decision. Its dead letter says why, and
// explain reads those as well.
//
// An attempt that failed and was made again is no decision: it is in metrics and logs, and [Entry]
// has the number of the attempt that went well.
//
// Evidence is off unless Record is called. What it costs then is one more record for each decision.
//
// # The topic
//
// The key of a record is the row, as the processor's codec for keys has it, so that everything
// about a row is in one partition, in order; the value is an [Entry] as JSON; headers are those of
// the record that was decided about, and the timestamp is its time. Nothing of the record's value
// is in it, but ids are, and versions, and keys, and what a person has said to a decision of
// theirs: a topic of evidence is to be protected like the data itself. Amounts are in the state,
// from where explain shows them.
//
// # Times
//
// The time of the source is Time: the timestamp of the record, or what topology.EventTime has read.
// When it came is AppendTime, which takes message.timestamp.type=LogAppendTime at the topic that
// was read. When it was processed is the timestamp of the evidence itself, which takes the same at
// the topic of evidence: a program that looked at a clock would decide differently in a replay.
// Create the topic with that setting: what was written before has no such time.
//
// # Positions
//
// An entry names the topic, partition and offset of the record that was decided about where its
// task has read it from a topic of somebody else, also if it was kept back meanwhile, as by a
// projection. Behind topology.Repartition it does so if that keeps the origin (topology.KeepOrigin,
// inbox.KeepOrigin). Otherwise, and for the results of package effect, the record is known by its
// ids alone. Behind an internal topic, and for what was kept back, Turn names the record at work:
// that of the internal topic, or the one that has released it. It names none where that was a limit
// in time.
//
// # Retention
//
// The topic should not be compacted, and keep records as long as somebody may ask.
//
// # Concurrency
//
// There is nothing but declarations and values.
//
// # What it is not
//
// Evidence is for people and not a source of truth: state is rebuilt from inputs and changelogs.
package evidence
