package schemas

import _ "embed"

//go:embed flight.avsc
var flightSchema string

// FlightSchema returns the Avro schema of the flights example, the content of
// flight.avsc. It is here and not in schemas/avro because a file can be embedded
// only from its own folder, and schema files belong side by side; the schema's Go
// type and codec are in schemas/avro, whose dependency this package does not
// take on.
func FlightSchema() string { return flightSchema }
