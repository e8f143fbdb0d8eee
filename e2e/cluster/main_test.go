package cluster

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// envChild makes the test binary a program that starts a broker, says where it is, and waits to be killed.
const envChild = "ONCEWARD_CLUSTER_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(envChild) != "" {
		if err := holdBroker(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	Main(m)
}

func holdBroker() error {
	c, err := Start(context.Background(), KindKafka, Options{Own: true})
	if err != nil {
		return err
	}
	n := c.node.(*kafkaNode)
	fmt.Println(n.proc.cmd.Process.Pid, n.dir.path)
	select {}
}
