// Package topics makes sure that every topic of a topology is there and is what the runtime relies
// on, before a task is opened.
//
// A start creates and changes no topic of the user: a missing one is an error that names it.
// [Prospect] and [Create] are for an operator who wants them created. Internal topics (changelogs,
// repartition topics, the rounds topic) are created with the partition count that the inputs ask
// for. Existing ones are verified and never changed. Nothing relies on the broker's automatic
// creation of topics.
//
// # What is verified
//
//	every topic       exists; the process has every permission on it that [Needs] lists
//	written topics    as many replicas as min.insync.replicas, or nothing could be written
//	internal topics   partitions (a changelog or repartition topic may have fewer than an input that has grown: Layout.Unassigned);
//	                  min.insync.replicas not below the cluster's default nor the setting, replicas not below the setting;
//	                  message.timestamp.type CreateTime, because stream time is kept in the timestamps
//	changelog, rounds cleanup.policy compact alone: with delete, state would be lost. Changelogs of stores whose windows, sessions,
//	                  series or ids expire have compact,delete and a retention.ms of a day more than the store's, those of histories a
//	                  min.compaction.lag.ms of as much
//	repartition       cleanup.policy delete alone, retention.ms and retention.bytes -1: the runtime deletes committed records, and
//	                  brokers may not delete others
//	changelog,        max.message.bytes not below the largest of the inputs: every record that is read must fit
//	repartition
//	inputs            retention.ms not above the dedupe window of a node that they feed (graph.DedupeWindow), unless the node tolerates
//	                  it; see [Plan.Tolerated]
//
// [Check] and [Plan.Ensure] do it at start, [Plan.Verify] before each further membership: two
// requests. [Bind] says before each of them which topics the sources by pattern read. [Watch] looks
// at existence, identity, permissions and partitions while the application runs, with one request.
// Every finding is a [Mismatch] or a missing permission, one line each, and all of them are told at
// once. One broker answers, and it may lack a topic for a moment: see [ErrAbsent].
package topics
