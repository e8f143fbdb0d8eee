package capture

import (
	"strconv"

	"github.com/onceward/onceward/processors/envelope"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Capture is a request. What identifies it as a message, and as a part of a story, is in its
// headers: the envelope.
type Capture struct {
	// ID is the capture request id, by which there is one capture, however many messages ask for
	// it.
	ID     string `json:"id"`
	Amount int64  `json:"amount"`
}

// HeaderSchema is the header that tells the version of the schema of a request, and Schema the
// version that there is.
const (
	HeaderSchema = "schema-version"
	Schema       = 1
)

const (
	errNoMessage     = schemas.Reason("the envelope has no message id")
	errNoCorrelation = schemas.Reason("the envelope has no correlation id")
	errSchema        = schemas.Reason("the schema version is not 1")
	errNoCapture     = schemas.Reason("there is no capture request id")
)

// validate refuses what is no request.
func validate(r topology.Record[string, Capture]) error {
	ids := envelope.Of(r)
	version, _ := r.Header(HeaderSchema)
	switch {
	case ids.MessageID == "":
		return topology.Fail(topology.Validation, errNoMessage)
	case ids.CorrelationID == "":
		return topology.Fail(topology.Validation, errNoCorrelation)
	case string(version) != strconv.Itoa(Schema):
		return topology.Fail(topology.Validation, errSchema)
	case r.Value.ID == "":
		return topology.Fail(topology.Validation, errNoCapture)
	}
	return nil
}
