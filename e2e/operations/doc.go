// Package operations does to running systems what operators do to them, on purpose or not. It has
// tests only.
//
// # Recovery actions
//
// The test breaks the link between the state of an application and its offsets: offsets are moved,
// lost, or committed by another program; a changelog is deleted; a database is damaged. Each task
// stops and names its recovery actions. The test takes each of them: adopt, accept-skip, reset,
// rebuild from the changelogs or from the input. Before, it tries the action where it must be
// refused, and as a dry run; neither changes anything. Afterwards state and outputs are exactly a
// fold of the input that was to be processed, also with an empty state directory. Stores with a
// stream time of their own still know it.
//
// # Upgrades
//
// Two builds of one application, this one and the next, share a group and a state directory: a
// rolling upgrade and its rollback while records are processed, one directory that both use in
// turn, and downgrades that have to be refused.
//
// The next build is this one with the tag onceward_next. Its state directory, its commit metadata
// and what its members tell the group have a minor version that is one higher, and something in
// them that this build does not know. ONCEWARD_NEXT_MAJOR names those whose major version is one
// higher too: state, metadata, plan.
//
// # Access
//
// A real Kafka wants authentication and denies what no ACL allows. txn.Permissions is exactly what
// an application needs: with the list everything works, and without any one entry there is one
// error that names it, and no data is changed. Wrong credentials, and a broker that is too old, are
// one line each.
//
// # What is not here
//
// The command line of the recovery actions is tested in cmd/cli, plans of two versions in
// txn/internal/assign, and faults of the network in package faults.
package operations
