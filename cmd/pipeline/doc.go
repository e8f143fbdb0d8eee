// Package pipeline makes topologies of YAML files, so that an exactly-once pipeline needs no Go
// program. Everything ends as an ordinary topology: the file has no runtime of its own, and no
// meaning that package topology and the processors do not have.
//
//	name: payments                 # name of the topology, and application id by default
//	dead_letters: payment-dead     # topic for records that fail; without one such a record stops its task
//	evidence: payment-audit        # optional topic for what steps have decided, which onceward explain reads
//	source: {topic: payment-events, key: string, value: json, start: earliest}
//	steps:
//	  - dedupe: {name: inbox, id: event.message_id, retain: forever, conflicts: payment-conflicts}
//	  - project: {name: accounts, version: event.version, into: account-state}
//	  - filter: {name: captures, where: event.type == "capture"}
//	  - ledger: {name: balances, id: event.capture_id, amounts: {amount: event.amount}, into: account-balances}
//
// # Sources
//
// source is the only source of a pipeline, and the first step reads it. Keys are text and may be
// null. Values are JSON and may be null; a document with duplicate keys is malformed, because two
// readers could take it for different ones. start says where a new application begins: earliest
// (the default), latest, or a time such as 2026-01-31T08:00:00Z.
//
// Several sources are a list. A step names what it reads, a source or an earlier step; without the
// key reads it is the step before:
//
//	sources:
//	  - stream: {topic: orders}                              # named after its topic
//	  - table: {name: customers, topic: customer-changes}    # newest value of each key; a null deletes
//	  - global_table: {name: products, topic: product-list}  # all partitions, for joins only
//	steps:
//	  - join: {name: with-customer, reads: orders, with: customers, value: '{"id": event.id, "city": other.city}'}
//	  - sink: {topic: orders-with-city}
//
// A source can have a pattern in place of a topic. It reads all topics whose names match, also
// those that are created while the pipeline runs. Each has tasks of its own without state, so that
// rekey with a number of partitions stands before a step that keeps state. See
// topology.FromPattern:
//
//	source: {name: sales, pattern: 'sales\..+'}
//	steps:
//	  - rekey: {name: by-customer, key: event.customer, partitions: 6}
//	  - count: {name: totals}
//
// A step reads and passes on a stream, a table, or a table of windows. The steps changes and table
// make one of the other. The reference, docs/reference/pipeline.md, has a table of them.
//
// # Steps
//
// Steps follow each other. Each has one kind, and a name that is unique in the pipeline and stays:
// stores, changelogs and repartition topics are found by it. Topics are written in the same
// transaction as everything else. An optional key has a question mark. Every step also has reads?.
//
//	join       name, with, type?, value, key?, foreign_key?, within?, before?, after?, grace?
//	           Joins a stream with a stream, a table or a global table, and a table with a table. type is
//	           inner (the default), left or outer. value is made of event and other; the one that is absent
//	           is null. Two streams meet by time: within, or before and after, with a grace. key chooses
//	           the row of a global table, foreign_key that of another table. See topology.JoinStreams,
//	           JoinStreamTable, JoinGlobalTable, JoinTables and JoinForeignKey.
//	count      name, windows?, emit?, by?, in_memory?
//	           {"count": 2} for each key, or for each key and window. by is the group of a row of a table.
//	aggregate  name, initial, value, windows?, emit?, merge?, by?, subtract?, in_memory?
//	           A document for each key, or for each key and window. value is made of sofar and the record;
//	           a null removes the aggregate. merge is for sessions that become one, subtract for a row
//	           that leaves its group.
//	table      name, in_memory?
//	           The newest value of each key of a stream; a null deletes.
//	changes    name
//	           The values after each change of a table as a stream; a null for a deleted row.
//	suppress   name, limit, max_records?, max_bytes?
//	           The changes of a key of a table that come within the limit become one.
//	merge      name, with
//	           The records of several streams as one stream; with is a list.
//
//	dedupe   name, id, retain, duplicates?, conflicts?, missing?, malformed?, longer_topics?, late?,
//	         globally?, keep_origin?
//	         The first record with an id goes on. Later ones with the same payload are duplicates, those
//	         with another one are conflicts; without a topic for them duplicates end and conflicts fail. missing
//	         gets records whose id is empty, malformed those that have no text there, or one that is no id;
//	         without a topic for them both fail. retain says how long ids are kept: forever, or a time such as
//	         168h, after which an id expires by the timestamps of the records. The time is at least as long as
//	         the source topic keeps records (longer_topics: refuse, or tolerate); late gets records that are
//	         older, which fail without it. globally: true finds ids under any key; with keep_origin: true
//	         evidence and dead letters behind it name the record of the source. See package processors/inbox.
//	filter   name, where
//	         Records for which where is true go on.
//	map      name, value
//	         Records go on with another value.
//	project  name, version, into, value?, gaps?, sparse?, stale?, gaps_into?
//	         The latest state of each key, by version: value, or the event as it is. into gets every new
//	         state as {"version": 1, "value": ...}. A null event deletes the state. gaps: fail (the default)
//	         or accept, for a record before which versions are missing; sparse: true if versions are not
//	         dense. stale gets records that came too late, gaps_into those that revealed a gap. See package
//	         processors/projection.
//	ledger   name, id, amounts, into, corrects?, reverses?, conflicts?
//	         Sums for each key, in which every contribution id counts once. amounts are names with integer
//	         expressions; their names belong to what is stored: a ledger with others gets a new name. into gets
//	         every new balance as {"count": 2, "amounts": {"amount": 7},
//	         "contribution": "c2"}. corrects names the contribution that this one adjusts, and reverses the
//	         one that it takes back, whatever its amounts are; "" or null if there is none. conflicts gets
//	         records with a known id that say something else; without it they fail. See package
//	         processors/ledger.
//	transition  name, id, from, to, initial, next, into?, refused?, version?
//	         Steps of a state machine: records whose transition is accepted go on. The aggregate is the key;
//	         from is "" or null where the record creates it. initial has the states in which it may begin, next
//	         all states with those that may follow: {placed: [paid, cancelled], paid: [], cancelled: []}. into
//	         gets every accepted transition, once: {"id": "s1", "from": "", "to": "placed", "version": 1,
//	         "timestamp": ...}. refused gets the others with the reason; without it duplicates end, and the rest
//	         fail. version is for machines with cycles. See package processors/transition.
//	caused   name, cause
//	         Records get ids of their own in their headers, which follow from those that they have and the name:
//	         for outputs whose readers dedupe. cause is the id of what caused them, such as
//	         headers["onceward.message-id"]. See package processors/envelope.
//	rekey    name, key, partitions?, keep_origin?
//	         Records get another key and go to the partition of it, through a topic of their own, which has
//	         that many partitions. With keep_origin: true evidence and dead letters behind it name the record
//	         of the source.
//	sink     topic; feedback, true if the pipeline reads the topic as well and something ends the way of what comes back
//	         Records are written to a topic, as they are.
//
// project, ledger and sink are branches: the next step gets their input records unchanged. Every
// other step passes its output to the next one. dedupe, project, ledger and transition keep state
// per key, so related records must have one key; use rekey for that. These four write their
// decisions to the topic of evidence, one record for each decision; see package
// processors/evidence.
//
// in_memory: true keeps the rows of a step, or of a source that is a table, in memory and none on
// the disk. The changelog of the store restores them in full at each start. See
// topology.Store.InMemory.
//
// # Expressions
//
// Expressions are CEL, https://cel.dev. In YAML an expression with a colon, a brace or a # is put
// in quotes or in a block. The variables are
//
//	event      the value, as decoded JSON; null for a null
//	key        the record's key, a string; null for a null
//	timestamp  the record's timestamp
//	headers    the record's headers that are UTF-8 text, a map of strings; of several with one key the last
//	other      the other side of a join, and the other session in merge
//	sofar      the aggregate so far
//
// The rows of tables and the results of joins have no timestamp and no headers.
//
// Expressions are checked when the file is read, as far as types are known; those of the event's
// fields are known at run time only. There is no clock and no randomness in them, so a replay gives
// the same results.
//
// Numbers are exact. A JSON integer is an int, or a uint beyond the range of signed 64-bit
// integers. Any other number is a double if the double has exactly the same value. A number that
// fits none of them can be passed on and compared for equality; every other operation on it fails.
// Amounts, versions and ids are never rounded or converted silently: a double is no amount, and 5
// is no id.
//
// An evaluation that fails (a missing field, types that do not fit, an overflow, a cost of more
// than 1,000,000 units of CEL's cost model) fails the record with class Validation. The reason
// names the expression and the fields that it mentions, and nothing of the record.
//
// An object of a new value has its keys sorted, and its integers stay integers. A value that no map
// step has replaced is written byte for byte as it was read.
//
// # Mistakes
//
// Unknown and repeated keys, wrong types, expressions that do not compile, names that are taken:
// [Load] returns all of them at once as an [*Error], each with file, line and column.
//
// # Concurrency
//
// All functions are safe for concurrent use, and so is the topology. Nothing is started.
//
// # What it is not
//
// A pipeline has no calls to other systems, no event time other than the timestamp of the record,
// no cogroup, and keys and values of no other types. Write a program for these; package cmd/cli
// gives it the same commands.
package pipeline
