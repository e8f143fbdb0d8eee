// Package assign says which member has which task: the plan that the group's leader makes, and what
// this process has of it. It does no I/O and knows no Kafka client. A task is one partition number
// of a subtopology: the partitions of that number of all its source topics, repartition topics
// included. They are assigned, moved and given up together.
//
// # Ownership
//
// A task is open only while all of its input partitions are assigned. Its ownership epoch is the
// member id under which it was opened and a counter that every revoke and every loss raises. Before
// a commit the committer presents the epochs of the round's tasks as [Claim]s. [Ownership.Check]
// compares them and reads the membership under one lock, directly before the request is sent. A
// round that holds a task which was given up can only abort. The lock is never held over I/O or a
// wait.
//
// # The plan
//
// [Balance] is a function of what the members said when they joined: same input, same plan. A task
// goes to
//
//  1. the member that holds it, if it knows the subtopology with the same sources;
//  2. the member to which its move was pending in the previous plan;
//  3. the member that had it, and was restarted while the group was joining;
//  4. the member with a warm copy of it;
//  5. the member whose local state is the furthest;
//  6. the member that has the fewest, of the subtopology first and in total next;
//
// and then as few as possible move until every two members differ by at most one task, in total and
// of each subtopology. A stopped task does not move, and does not count: it is no work, and its
// member must not lose the last task that works because of it.
//
// The plan is cooperative: a task that another member still holds is assigned to no member in this
// generation. The move is pending: the holder finds the task missing, finishes or aborts what is in
// flight, gives the task up and joins again. The next plan hands the task over. So no two members
// of one generation can commit the same partition. If two members claim a partition, the higher
// generation has it (KIP-792). At the same generation neither can be trusted with it, and both have
// to give it up first.
//
// The plan names the owner of every task, so that each member knows where the state of a task can
// be read ([Plan.Owner]). That is where to ask, and no permission to answer: a member answers for
// the tasks of which it has the ownership.
//
// Members may run different topologies, as in a rolling upgrade. If two definitions share a source
// topic, the one that most members know is used, and only the members that know it get its tasks.
//
// # Copies
//
// Where members ask for standbys, the plan also says which member keeps a copy of the state of
// which task. A copy is warm once it has reached a commit that was the last one a moment before:
// package standby says so. Each task with state has as many copies as the members ask for, as far
// as there are members. They are evenly divided, stay where they are, and are in other racks than
// their task where the members have racks.
//
// A task with state that is to move waits for a warm copy at the member that it moves to. Meanwhile
// it stays where it can go on at once: with its holder, or with a member that has a warm copy. In
// the same way a warm copy stays until the one that replaces it is warm. The plan marks the copies
// that it waits for ([Copy].Awaited), and their member forces a rebalance once they are warm. A
// task does not wait if no member can go on with it at once, or if the member that it moves to
// keeps no copies.
//
// # Forcing a rebalance
//
// A static member that comes back gets its old assignment, whatever its join data say. So the
// leader does not know its present join data, and a task that it was to give up when it died has no
// holder while the group is stable. [Forcing] heals both from the plan itself, which travels in the
// user data of every assignment. A member that the plan describes wrongly joins again, once. A
// leader plans again if moves of its plan are pending long after the revokes must be over. A
// restarted leader needs nothing but the plan.
//
// A task that moves is processed by no member until all members have joined again. They would hear
// of that with their next heartbeats only. So a member that has given such tasks up, or has left the
// group, tells the others (package peers), and these force the rebalance at once. Each passes it on
// once to its own peers. A member that has the plan later than its peers does not. In a large group,
// members behind that one may hear of the rebalance with their heartbeats.
//
// For the same reason the plan says how many stopped tasks of each member it did not count. Once
// they work again, because the process was restarted or they were resumed, their member has more
// than its share, and no other member knows. It joins again when the tasks have had the time to
// stop once more. Otherwise a task that stops wherever it is would go from one member to the next
// with every restart.
//
// # Format of the user data
//
// [Join] travels with JoinGroup, [Plan] with each member's assignment. Both are
//
//	major    1 byte, 1 for both
//	minor    1 byte, told and never judged
//	fields   each a tag and a length as uvarints and then so many bytes
//	check    4 bytes, CRC-32C of everything before, big endian
//
// A string is its length as a uvarint and its bytes; a number without a width is a uvarint; fixed
// widths are big endian.
//
//	Join  1 nonce          8 bytes
//	      2 fingerprint    8 bytes
//	      3 subtopology    name, most partitions (0: no bound), number of sources, sources, and since minor version 2
//	                       flags (1: with state); once for each
//	      4 local state    subtopology, number of tasks, partition and position of each; once for each subtopology
//	      5 stopped task   subtopology, partition, reason; once for each
//	      6 address        where other members reach the process, since minor version 1
//	      7 standbys       how many copies of each task, since minor version 2 as what follows
//	      8 rack           where the process is
//	      9 warm copy      subtopology, number of tasks, partitions; once for each subtopology
//	Plan  1 id             8 bytes
//	      2 pending move   subtopology, partition, from, to; once for each
//	      3 member         instance id (else member id), fingerprint 8 bytes, subscription 8 bytes, number of its stopped tasks,
//	                       address (since minor version 1), standbys and rack (since minor version 2); once for each
//	      4 copy           member, subtopology, number of tasks, of each the partition times two, plus one if it is awaited;
//	                       once for each member and subtopology, since minor version 2
//	      5 owner          member, subtopology, number of tasks, partitions; once for each member and subtopology, since minor
//	                       version 3
//
// A minor version may add tags and may append to a field. A reader skips tags that it does not know
// and what follows in a field after what it knows; what an older writer left out is zero. So
// versions N and N+1 share a group in both directions. The build that brings a newer major version
// reads the one before. For an older build a newer major version, a wrong check or a field that is
// cut off makes the whole data unreadable: such a member is taken for one that knows no
// subtopology. It keeps the group working and gets no task, and what it holds moves to others by
// the rules above; an assignment with such a plan is followed all the same. But an instance does
// not begin its life in a group that has data of a newer major version (broker.Cluster.CheckGroup):
// that would be a downgrade, and moves tasks for nothing.
//
// # Concurrency
//
// An [Ownership] and a [Self] may be used from any goroutine, a [Forcing] from one at a time.
// Everything else is plain data.
//
// # What it is not
//
// It does not know how far a copy is behind: its member says whether it is warm. Weights are counts
// of tasks.
package assign
