package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
)

// envChild makes the test binary a program that launches a broker, says which process it is, and
// waits to be killed.
const envChild = "ONCEWARD_CLUSTER_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(envChild) != "" {
		if err := holdBroker(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := os.Setenv("JDK_JAVA_OPTIONS", loggedLoads); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	InParallel(3) // nearly all of them start brokers, which wait for sessions half of the time
	Main(m)
}

func holdBroker() error {
	n, err := newNode(context.Background(), KindKafka, Options{Own: true})
	if err != nil {
		return err
	}
	if err := n.launch(context.Background()); err != nil {
		return errors.Join(err, n.close())
	}
	k := n.(*kafkaNode)
	fmt.Println(k.proc.cmd.Process.Pid, k.dir.path)
	<-k.proc.ended
	return fmt.Errorf("the broker has ended: %w", k.cause())
}
