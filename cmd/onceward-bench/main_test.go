package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){name: main})
}

// TestScripts runs the program on an embedded broker.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			c, err := kfake.NewCluster(kfake.NumBrokers(1))
			if err != nil {
				return err
			}
			env.Defer(c.Close)
			env.Setenv("BROKERS", strings.Join(c.ListenAddrs(), ","))
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"code": code, "produce": produce},
	})
}

// code runs a command and compares its exit code: code 2 command...
func code(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// produce writes a record with this value: produce topic value.
func produce(ts *testscript.TestScript, _ bool, args []string) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(ts.Getenv("BROKERS")), kgo.DefaultProduceTopic(args[0]))
	ts.Check(err)
	defer cl.Close()
	ts.Check(cl.ProduceSync(context.Background(), &kgo.Record{Key: []byte("k"), Value: []byte(args[1])}).FirstErr())
}
