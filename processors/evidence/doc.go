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
// A topic of evidence has one record for each decision of the recorded processors, written in the
// transaction of the decision. So there is no decision without evidence, and no evidence of an
// undone decision. A record that fails has no decision. Its dead letter has the reason, and explain
// reads dead letters as well.
//
// An attempt that failed and was made again is no decision: it is in metrics and logs, and [Entry]
// has the number of the attempt that went well.
//
// Evidence is off unless Record is called. It costs one more record for each decision.
//
// # The topic
//
// The key of an evidence record is the row, encoded by the processor's codec for keys. So all
// evidence of a row is in one partition, in order. The value is an [Entry] as JSON. Headers and
// timestamp are those of the record that was decided about.
//
// Evidence contains no part of the record's value, but it contains ids, versions, keys, and the
// comments of people on their decisions. So protect a topic of evidence like the data itself.
// Amounts are in the state, from where explain shows them.
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
// An entry names the topic, partition and offset at which the task has read the record, if the
// topic is an external one. That holds also for a deferred record, for example of a projection.
// Behind topology.Repartition it holds if the topic keeps the origin (topology.KeepOrigin,
// inbox.KeepOrigin). Otherwise, and for the results of package effect, only the ids identify the
// record. Behind an internal topic, and for deferred records, Turn names the record at work: the
// one of the internal topic, or the one that released the deferred record. It is empty if a time
// limit released the record.
//
// # Retention
//
// The topic should not be compacted, and should keep records for as long as questions may come.
//
// # Concurrency
//
// There is nothing but declarations and values.
//
// # What it is not
//
// Evidence is for people and not a source of truth: state is rebuilt from inputs and changelogs.
package evidence
