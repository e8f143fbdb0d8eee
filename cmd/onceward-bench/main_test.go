package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/cmd/internal/scripttest"
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
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"code": scripttest.Code, "produce": produce},
	})
}

// produce writes a record with this value: produce topic value.
func produce(ts *testscript.TestScript, _ bool, args []string) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(ts.Getenv("BROKERS")), kgo.DefaultProduceTopic(args[0]))
	ts.Check(err)
	defer cl.Close()
	ts.Check(cl.ProduceSync(context.Background(), &kgo.Record{Key: []byte("k"), Value: []byte(args[1])}).FirstErr())
}
