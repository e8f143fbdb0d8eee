package schemas

import _ "embed"

//go:embed flight.avsc
var flightSchema string

// FlightSchema returns the Avro schema of the flights example, the content of flight.avsc. It is
// here and not in schemas/avro for two reasons: a file can be embedded only from its own folder,
// and schema files belong side by side. The schema's Go type and codec are in schemas/avro, so that
// this package does not need its dependency.
func FlightSchema() string { return flightSchema }
