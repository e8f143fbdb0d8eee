// Package flights is a pipeline over a year of real data: every flight that departed from New York City in
// 2013, and in its tests the scenario that kills it again and again and compares what it has written, row by
// row, with an independent recomputation.
//
// # Data
//
// testdata/flights.csv.gz has 336,776 rows of the data set nycflights13 (CC0), in its order; package
// makedata says what the columns are and makes the file. It is not tidy, as in life: 2,512 rows do not know
// their plane, 8,255 flights were cancelled, 1,175 departed and did not arrive where they should, and the
// months are not in order, so that two of three rows of a plane come after a later one.
//
// # Pipeline
//
//	flights ── parse ─┬─ known ── departure ── planes ─┬─ plane-latest
//	 │ key: tail      │                                └─ plane-stale
//	 │                └─ carrier ── by-carrier ── carriers ─┬─ carrier-totals
//	 └─ (malformed) ── flights-dead                         └─ carrier-twice
//
// The source has one record for each row, keyed by the plane's tail number. The projection planes has the
// latest flight of each plane: by scheduled departure, which is not dense, and by the line in the file where
// two are scheduled for one minute. The ledger carriers has, for each carrier, the number of flights, the
// minutes of arrival delay, and how many flights were cancelled and how many diverted; a contribution is
// identified by carrier, flight number, origin and scheduled hour. Event time is the scheduled departure.
//
// # Scenario
//
// The tests run the pipeline as a process of its own, on the embedded broker and on real Kafka, and kill it
// with SIGKILL at six places between 10 and 90 % of the input. A kill counts only if the broker lists an open
// transaction of the pipeline when the process is gone; one of them falls into the restore of a task whose
// state was removed. Then every topic, row by row as stored, every dead letter, the state on disk and the
// changelogs are compared with what package recompute says, and once more the state that the pipeline
// restores into an empty directory. The scenario needs the signals of Unix.
package flights
