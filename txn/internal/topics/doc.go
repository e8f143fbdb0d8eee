// Package topics makes sure that every topic of a topology is there and is what the runtime relies on, before a task is opened.
//
// User topics are never created or changed: a missing one is an error that names it. Internal topics (changelogs, repartition topics,
// the rounds topic) are created with the partition count that the inputs ask for, and verified when they exist. Nothing relies on the
// broker's automatic creation of topics.
package topics
