// Command gateway runs the fake gateway of package capture.
package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/onceward/onceward/examples/capture"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8089", "where to listen")
	flag.Parse()
	fmt.Fprintln(os.Stderr, "gateway: listening on", *listen)
	server := &http.Server{Addr: *listen, Handler: capture.NewGateway(), ReadHeaderTimeout: time.Minute}
	fmt.Fprintln(os.Stderr, "gateway:", server.ListenAndServe())
	os.Exit(1)
}
