package cli_test

import (
	"context"
	"fmt"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/avro"
	"github.com/onceward/onceward/topology"
)

// airplane is a value that is Avro in its topic and JSON in front of people.
type airplane struct {
	Tail  string `json:"tail"`
	Seats int32  `json:"seats"`
}

func airplaneCodec() schemas.Codec[airplane] {
	const schema = `{"type": "record", "name": "Airplane", "fields": [{"name": "tail", "type": "string"}, {"name": "seats", "type": "int"}]}`
	codec, err := avro.New(schema,
		func(p airplane) (map[string]any, error) { return map[string]any{"tail": p.Tail, "seats": p.Seats}, nil },
		func(record map[string]any) (p airplane, err error) {
			if p.Tail, err = avro.Field[string](record, "tail"); err != nil {
				return p, err
			}
			p.Seats, err = avro.Field[int32](record, "seats")
			return p, err
		})
	if err != nil {
		panic(err)
	}
	return codec
}

// hangarTopology writes down every airplane. One with fewer seats than none fails.
func hangarTopology() *topology.Topology {
	b := topology.NewBuilder("hangar", topology.DeadLetters("dead"))
	in := topology.From(b, topology.Topic("in", schemas.String(), airplaneCodec()))
	topology.MapValues(in, "count", func(v airplane) (string, error) {
		if v.Seats < 0 {
			return "", topology.Fail(topology.Validation, schemas.Reason("there are fewer seats than none"))
		}
		return fmt.Sprintf("%s %d", v.Tail, v.Seats), nil
	}).Into(topology.Topic("out", schemas.String(), schemas.String()))
	return mustBuild(b)
}

// writeAirplane writes a record to partition 0 of a topic: airplane topic key tail seats.
func writeAirplane(ts *testscript.TestScript, _ bool, args []string) {
	seats, err := strconv.ParseInt(args[3], 10, 32)
	ts.Check(err)
	value, err := airplaneCodec().Append(nil, airplane{Tail: args[2], Seats: int32(seats)})
	ts.Check(err)
	cl, err := kgo.NewClient(kgo.SeedBrokers(ts.Getenv("BROKERS")), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	ts.Check(err)
	defer cl.Close()
	r := &kgo.Record{Topic: args[0], Key: []byte(args[1]), Value: value}
	ts.Check(cl.ProduceSync(context.Background(), r).FirstErr())
}
