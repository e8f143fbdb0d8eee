package processing

import "github.com/onceward/onceward/processors/transition"

// Event is a fact about an account. The record's key is the account.
type Event struct {
	ID string `json:"id"`
	// Version numbers the facts of an account from 1.
	Version int64 `json:"version"`
	Kind    Kind  `json:"kind"`
	// Amount is in the smallest unit, and may be beyond what a float64 tells apart.
	Amount int64 `json:"amount,omitzero"`
	// About is the id of the fact that is corrected or reversed.
	About string `json:"about,omitzero"`
	// Valued is the value date of a movement of money, in milliseconds since the epoch. A
	// correction or reversal has the value date of its fact.
	Valued int64 `json:"valued,omitzero"`
	// Order is what a payout is made for, under whatever id it comes.
	Order string `json:"order,omitzero"`
}

// Kind is what has happened.
type Kind string

// The kinds. Each is a transition of the account; those that move money are contributions too, and
// a payout also calls the gateway.
const (
	Open    Kind = "open"
	Deposit Kind = "deposit"
	Correct Kind = "correct"
	Reverse Kind = "reverse"
	Payout  Kind = "payout"
	Freeze  Kind = "freeze"
	Thaw    Kind = "thaw"
	Close   Kind = "close"
)

// Standing is the state of an account.
type Standing string

// The states.
const (
	Active Standing = "active"
	Frozen Standing = "frozen"
	Closed Standing = "closed"
)

// machine lets a closed account do nothing, and a frozen one nothing but thaw or close.
var machine = transition.Machine[Standing]{
	Initial: []Standing{Active},
	Next: map[Standing][]Standing{
		Active: {Active, Frozen, Closed},
		Frozen: {Active},
		Closed: nil,
	},
}

// steps are the transitions of the kinds.
var steps = map[Kind][2]Standing{
	Open: {"", Active}, Deposit: {Active, Active}, Correct: {Active, Active}, Reverse: {Active, Active}, Payout: {Active, Active},
	Freeze: {Active, Frozen}, Thaw: {Frozen, Active}, Close: {Active, Closed},
}

// moves says that the kind is a contribution.
func (k Kind) moves() bool { return k == Deposit || k == Correct || k == Reverse || k == Payout }

// Account is what the projection of all facts has of an account.
type Account struct {
	Facts int64 `json:"facts"`
	// Total adds up the amounts of the facts, accepted or not.
	Total int64 `json:"total"`
	Last  Event `json:"last"`
}
