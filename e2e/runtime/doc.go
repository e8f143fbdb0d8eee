// Package runtime runs applications in small scenarios, each of one thing that the runtime has to
// do. It has tests only.
//
// # Processing
//
// One instance processes an input, stops and comes back. Each record counts once and in order, also
// behind a repartition topic; a failed record leaves its dead letter alone; a lost state directory
// is restored; what is missing or wrong around the application is one error. admin.Verify finds the
// state equal to its changelogs.
//
// # Membership
//
// Instances of one application join, leave, are restarted, killed and exchanged for a next version.
// The tests look at the group as the coordinator describes it: who has which task, and whether
// another plan was made. They look at the output too: records are counted once, and a partition
// that does not move goes on.
//
// # Answers of the broker
//
// What the commit protocol is built on is shown on real Kafka, without a runtime: the order of
// offset commits in overlapping transactions, a first commit that is pending, the limit of
// metadata. Applications then meet a commit that never arrives, the last epoch of a producer id,
// positions that are longer than that limit, transactional ids that the broker has forgotten, and a
// broker whose log has lost its end.
//
// # What is not here
//
// Package faults loses requests and replies of every kind and kills at every point; package
// simulation searches. Most scenarios run on virtual time, and on real Kafka where the environment
// asks for it (cluster.Scenario); each that does not says why.
package runtime
