package main

import "github.com/onceward/onceward/processors/transition"

// The states of a payment.
const (
	authorized = "authorized"
	captured   = "captured"
	cancelled  = "cancelled"
	refunded   = "refunded"
)

// machine has the states that may follow a state.
var machine = transition.Machine[string]{
	Initial: []string{authorized},
	Next:    map[string][]string{authorized: {captured, cancelled}, captured: {refunded}, cancelled: nil, refunded: nil},
}

// Step is a step that a client asks for. The service stores and publishes it without knowing
// whether it is valid: the topology decides. The id of a step is that of its event.
type Step struct {
	Payment string `json:"payment"`
	Account string `json:"account"`
	Cents   int64  `json:"cents"`
	// From is "" in the step that creates the payment.
	From string `json:"from"`
	To   string `json:"to"`
}

// steps are the steps that the service has a path for: POST /payments/{payment}/{step}.
var steps = map[string]struct{ from, to string }{
	"capture": {authorized, captured},
	"cancel":  {authorized, cancelled},
	"refund":  {captured, refunded},
}
