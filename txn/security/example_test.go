package security_test

import (
	"fmt"

	"github.com/onceward/onceward/txn/security"
)

// A password shows itself neither in logs nor in errors, and what gives protection away has to say
// so.
func ExampleConfig_Validate() {
	cfg := security.Config{
		SASL: security.SASL{Mechanism: security.Plain, User: "payments", Password: security.NewSecret("not for the log")},
	}
	fmt.Println(cfg.SASL.Password)
	fmt.Println(cfg.Validate())
	cfg.TLS.CAFile = "ca.pem" // which turns TLS on
	fmt.Println(cfg.Validate())
	// Output:
	// [secret]
	// SASL.Mechanism: PLAIN sends the secret itself and the connection is not encrypted: turn TLS on, or use SCRAM
	// <nil>
}
