// Package crash kills, fails, delays and freezes the runtime at every point that it names, and looks for the damage.
//
// # A cell
//
// A cell of the matrix is a failpoint and an action of package failpoints. The application counts the records of each key and, through a
// repartition topic, of each group of keys: two subtopologies, two stores, dead letters and a topic that is purged.
//
//	life 0   without failpoints: some records, an orderly end. Left out where the first round ever is meant.
//	life 1   with the point armed, fed until the point is hit. After a kill it is gone. After an error, a delay or a hanging goroutine it
//	         works on, or ends with an error where the table says so. A frozen one is thawed once another instance has lost patience,
//	         taken the tasks and caught up: then it is a zombie, and has to get back to work.
//	life 2   the same identity and directory again, or after some kills another instance with an empty directory. It finishes.
//	life 3   the first identity with an empty directory: everything is restored from the changelogs.
//
// Every cell runs on virtual time (package virtual), with the time-outs of production and an application on a host of its own. A kill cuts off
// the host, and the next life begins on a copy of the state directory as it is when all goroutines wait. A freeze stalls the host, and holds
// the goroutine that has come to the point; the timers of the application go on.
//
// On real Kafka the armed life is a process of its own: the program in app, built with the tag onceward_failpoints. There run the kills at
// every point and the freezes around the commit, with -short only those at the points of the commit.
//
// Beside the matrix there are variants of cells that protocol rules ask for: the first life ever, a takeover, another number of
// workers, rounds in doubt that were committed and that were not, rounds without changelog records, and an application that is frozen only until its tasks have another owner, so that it can still commit.
//
// # What is checked
//
// Every output names the input that it was made of and its number in the sequence of its key. The outputs of a key must be the fold
// of its inputs, record for record; those of a group must contain each input once, in the order of each key; each poisoned record must
// have one dead letter and no other trace; the stores at the end of life 2 and of life 3 must be the fold of the inputs; nothing may
// be left open at the broker. So anything lost, doubled, torn or reordered shows. The tests of the check break the application on
// purpose.
//
// A cell whose point was not hit fails. A point without cells, a row without a point, and a combination that is neither run nor listed
// with its reason fail too.
//
// In an application with failpoints, also with none armed, databases go to the disk after every few rounds: what a kill leaves behind is some
// prefix of what was applied, and not always nothing.
//
// # What it is not
//
// It is no soak: one fault a life, small inputs. It needs Unix signals.
package crash
