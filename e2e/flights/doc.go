// Package flights runs a pipeline over a year of real data, every flight that departed from New
// York City in 2013, kills it again and again, and compares what it has written, row by row, with
// an independent recomputation. All of it is tests.
//
// # Data
//
// testdata/flights.csv.gz has 336,776 rows of the data set nycflights13 (CC0), in its order, behind
// a header in line 1:
//
//	scheduled      scheduled departure, UTC minutes since 1970-01-01T00:00Z
//	carrier        two-letter code of the airline
//	flight         flight number
//	origin         airport of departure
//	destination    airport of arrival
//	tail           tail number of the plane, empty if it is not known
//	departed       1, or 0 for a flight that was cancelled
//	arrival_delay  minutes late, negative if early, empty if cancelled or diverted
//
// Real data is not tidy: 2,512 rows do not know their plane, 8,255 flights were cancelled, 1,175
// departed and did not arrive where they should, and the months are not in order, so that two of
// three rows of a plane come after a later one. TestMakeData makes the file:
//
//	go test ./e2e/flights -run '^(TestMakeData|TestDataFile)$' -makedata "$PWD"/path/to/nycflights13/flights.csv.gz
//
// # Pipeline (pipeline_test.go, parse_test.go)
//
//	flights ── parse ─┬─ known ── departure ── planes ─┬─ plane-latest
//	 │ key: tail      │                                └─ plane-stale
//	 │                └─ carrier ── by-carrier ── carriers ─┬─ carrier-totals
//	 └─ (malformed) ── flights-dead                         └─ carrier-twice
//
// The source has one record for each row, keyed by the plane's tail number. The projection planes
// has the latest flight of each plane: by scheduled departure, which is not dense, and by the line
// in the file where two are scheduled for one minute. The ledger carriers has, for each carrier,
// the number of flights, the minutes of arrival delay, and how many flights were cancelled and how
// many diverted; a contribution is identified by carrier, flight number, origin and scheduled hour.
// Event time is the scheduled departure.
//
// # Scenario (flights_test.go, scenario_test.go, kill_test.go, compare_test.go)
//
// TestFlights runs the pipeline as a process of its own, on the embedded broker or on real Kafka,
// and kills it with SIGKILL at six places between 10 and 90 % of the input. A kill counts only if
// the broker lists an open transaction of the pipeline when the process is gone; one of them falls
// into the restore of a task whose state was removed. Then every topic, row by row as stored, every
// dead letter, the state on disk and the changelogs are compared with the recomputation, and so is
// the state that the pipeline restores into an empty directory. The scenario needs the signals of
// Unix. TestPipelineInMemory compares the pipeline without a broker: what TestFlights finds beyond
// that is the runtime's. TestControls and its like are the negative controls: they break one record
// or row, and it has to be found.
//
// # Recomputation (recompute_*_test.go)
//
// These files say what the pipeline has to write and to keep, given what is in its source topic,
// and how what is there differs. They share no code with the pipeline: they read the data file with
// a parser of their own, have their own partitioner and their own decoders, and compute every
// result in the plainest way, over all rows in memory. TestRecomputationIsIndependent checks their
// imports, and their types without the rest of the package.
//
//	rows, err := readDataFile(file)
//	inputs, err := inputsOfRows(rows, malformed, 6) // what the source topic has to hold
//	want := recompute(inputs, 6)
//	err = want.checkLatest(records)                 // what is wrong with an output topic
//
// The topics that follow from one source partition each (plane-latest, plane-stale, flights-dead)
// are known to the last record and in their order. The records of by-carrier and carrier-totals
// come from several source partitions, whose interleaving is not known. Of by-carrier the set is
// known, and the order of the records of each source partition. Of carrier-totals the set of
// contributions is known, and each record has the totals of the record before it of the same
// carrier plus its own contribution, in the order of by-carrier.
//
// A check reports all that it finds as one error, which shows the first few. A nil error means that
// no record is missing, doubled or extra.
package flights
