package schemas_test

import (
	"errors"
	"fmt"

	"github.com/onceward/onceward/schemas"
)

func ExampleString() {
	codec := schemas.String()
	key, err := codec.Append(nil, "DE-4471")
	fmt.Printf("%s %v\n", key, err)

	_, err = codec.Decode([]byte("DE-\xff"))
	fmt.Println(err)
	// Output:
	// DE-4471 <nil>
	// schemas: decode string: byte 3: text is not valid UTF-8
}

func ExampleJSON() {
	type balance struct {
		Account string `json:"account"`
		Cents   int64  `json:"cents"`
	}
	codec := schemas.JSON[balance]()
	value, err := codec.Append(nil, balance{Account: "DE-4471", Cents: 12990})
	fmt.Printf("%s %v\n", value, err)

	// Errors say where and why, and never what: this one can be logged.
	_, err = codec.Decode([]byte(`{"account":"DE-4471","cents":"12990"}`))
	fmt.Println(err)
	// Output:
	// {"account":"DE-4471","cents":12990} <nil>
	// schemas: decode json: byte 36: JSON string does not fit Go type int64 of field cents
}

func ExampleCanonicalJSON() {
	form, err := schemas.CanonicalJSON(nil, []byte(`{ "rate": 1.50, "id": "\u0041-7", "units": 100 }`))
	fmt.Printf("%s %v\n", form, err)

	// Readers would disagree on which value the second key has.
	_, err = schemas.CanonicalJSON(nil, []byte(`{"id":"A-7","\u0069d":"A-8"}`))
	fmt.Println(err)
	// Output:
	// {"id":"A-7","rate":15e-1,"units":1e2} <nil>
	// schemas: canonicalize canonical-json: byte 12: duplicate object key
}

func ExampleHashJSON() {
	first, err1 := schemas.HashJSON([]byte(`{"id":"A-7","amount":129.90}`))
	again, err2 := schemas.HashJSON([]byte(`{"amount": 1.299e2, "id": "A-7"}`))
	other, err3 := schemas.HashJSON([]byte(`{"id":"A-7","amount":129.91}`))
	fmt.Println(first == again, first == other, errors.Join(err1, err2, err3))
	// Output: true false <nil>
}
