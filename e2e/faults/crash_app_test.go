package faults

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// crashSettings are one instance of the application.
type crashSettings struct {
	Brokers     []string
	Application string
	Instance    string
	StateDir    string
	// Prefix is that of the names of the topics.
	Prefix  string
	Workers int
	// SessionTimeout and TransactionTimeout are those of txn, by default the ones of production.
	SessionTimeout, TransactionTimeout time.Duration
	// Noted is the file of dedupeInFile.
	Noted string
	// Broken breaks the application on purpose: it works outside of its transactions.
	Broken broken
}

// broken is a way to lose or to double records that the check must find.
type broken string

// The ways. Each of them is right as long as nothing crashes.
const (
	// whole is not broken.
	whole broken = ""
	// countInMemory keeps the counts beside the store: the next incarnation counts from 1 again.
	countInMemory broken = "count-in-memory"
	// dedupeInFile notes the records that it has seen in a file, and leaves out what it has noted:
	// what was noted and not committed is lost.
	dedupeInFile broken = "dedupe-in-file"
)

// The names of the topics behind the prefix.
const (
	inTopic     = "in"
	outTopic    = "out"
	totalsTopic = "totals"
	deadTopic   = "dead"
)

// partitions is how many every topic has.
const partitions = 2

// The part of an input behind its id.
const (
	// poison fails after it has written and emitted.
	poison = "poison"
	// silent neither writes nor emits: only the position moves.
	silent = "silent"
)

// keyCount is what the stores hold for a key: how many records there were, and the last one.
type keyCount struct {
	Count int64  `json:"count"`
	Last  string `json:"last"`
}

// The stores: one count for each key, and one for each group of keys.
var (
	countStore = topology.KeyValueStore("counts", schemas.String(), schemas.JSON[keyCount]())
	groupStore = topology.KeyValueStore("groups", schemas.String(), schemas.JSON[keyCount]())
)

type text = topology.Record[string, string]

// Topology returns the topology. A value of the input is an id, behind it padding after a space. A
// value of the outputs is the number of the record in its key or group, a space, and the input's
// value.
func (s crashSettings) Topology() (*topology.Topology, error) {
	stringTopic := func(name string) topology.TopicOf[string, string] {
		return topology.Topic(s.Prefix+name, schemas.String(), schemas.String())
	}
	b := topology.NewBuilder("crash", topology.DeadLetters(s.Prefix+deadTopic))
	in := topology.From(b, stringTopic(inTopic))
	counted := topology.Process(in, "count", countStore, s.count())
	counted.Into(stringTopic(outTopic))
	grouped := topology.Map(counted, "group", func(r text) (text, error) {
		return topology.WithKey(r, groupOf(r.Key)), nil
	})
	again := topology.RepartitionWith(grouped, "groups", schemas.String(), schemas.String())
	topology.Process(again, "total", groupStore, total).Into(stringTopic(totalsTopic))
	return b.Build()
}

// groupOf makes groups of keys that are in different partitions.
func groupOf(key string) string { return "g" + key[len(key)-1:] }

type processing = func(*topology.Context, state.KeyValue[string, keyCount], text, topology.Emit[string, string]) error

func (s crashSettings) count() processing {
	switch s.Broken {
	case countInMemory:
		counts := map[string]int64{} // one worker
		return func(c *topology.Context, rows state.KeyValue[string, keyCount], r text, emit topology.Emit[string, string]) error {
			if isPoison(r.Value) {
				return topology.Fail(topology.Validation, schemas.Reason(poison))
			}
			counts[r.Key]++
			return put(c, rows, r, keyCount{counts[r.Key], id(r.Value)}, r.Value, emit)
		}
	case dedupeInFile:
		return func(c *topology.Context, rows state.KeyValue[string, keyCount], r text, emit topology.Emit[string, string]) error {
			seen, err := note(s.Noted, id(r.Value))
			if seen || err != nil {
				return err
			}
			return count(c, rows, r, emit)
		}
	default:
		return count
	}
}

// count writes and emits before it fails, so that both have to be undone.
func count(c *topology.Context, rows state.KeyValue[string, keyCount], r text, emit topology.Emit[string, string]) error {
	if isSilent(r.Value) {
		return nil
	}
	was, _, err := rows.Get(r.Key)
	if err != nil {
		return err
	}
	if err := put(c, rows, r, keyCount{was.Count + 1, id(r.Value)}, r.Value, emit); err != nil {
		return err
	}
	if isPoison(r.Value) {
		return topology.Fail(topology.Validation, schemas.Reason(poison))
	}
	return nil
}

func total(c *topology.Context, rows state.KeyValue[string, keyCount], r text, emit topology.Emit[string, string]) error {
	was, _, err := rows.Get(r.Key)
	if err != nil {
		return err
	}
	_, input, _ := strings.Cut(r.Value, " ")
	return put(c, rows, r, keyCount{was.Count + 1, id(input)}, input, emit)
}

func put(
	c *topology.Context, rows state.KeyValue[string, keyCount], r text, now keyCount, input string, emit topology.Emit[string, string],
) error {
	if err := rows.Put(r.Key, now); err != nil {
		return err
	}
	return emit(c, topology.WithValue(r, strconv.FormatInt(now.Count, 10)+" "+input))
}

// id returns the id in an input's value.
func id(value string) string {
	id, _, _ := strings.Cut(value, " ")
	return id
}

func isPoison(value string) bool { return strings.HasSuffix(value, poison) }
func isSilent(value string) bool { return strings.HasSuffix(value, silent) }

// note appends the id to the file unless it is there, and reports whether it was.
func note(path, id string) (seen bool, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return false, err
	}
	defer f.Close()
	noted, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	if strings.Contains("\n"+string(noted), "\n"+id+"\n") {
		return true, nil
	}
	_, err = fmt.Fprintln(f, id)
	return false, err
}

// Config is how an instance runs.
func (s crashSettings) Config() txn.Config {
	return txn.Config{
		Brokers: s.Brokers, Application: s.Application, Instance: s.Instance, StateDir: s.StateDir, Workers: max(s.Workers, 1),
		SessionTimeout: s.SessionTimeout, TransactionTimeout: s.TransactionTimeout, CacheBytes: 8 << 20,
	}
}

// readStore returns what a store holds in all partitions, each from the life that serves it.
func readStore(store topology.Store[state.KeyValue[string, keyCount]], lives []*instance.App) (map[string]keyCount, error) {
	all := map[string]keyCount{}
	for p := range int32(partitions) {
		served := false
		for _, l := range lives {
			err := readPartition(l.App, store, p, all)
			if err != nil && !errors.Is(err, txn.ErrNotServing) {
				return nil, err
			}
			served = served || err == nil
		}
		if !served {
			return nil, fmt.Errorf("no life serves partition %d of store %s", p, store.Name())
		}
	}
	return all, nil
}

func readPartition(app *txn.App, store topology.Store[state.KeyValue[string, keyCount]], partition int32, into map[string]keyCount) error {
	view, err := txn.Read(app, store, partition)
	if err != nil {
		return err
	}
	defer view.Close()
	var pair state.Pair[string, keyCount]
	for pair, err = range view.Store().All() {
		if err != nil {
			return err
		}
		into[pair.Key] = pair.Value
	}
	return nil
}
