package deadletter_test

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// A record that cannot be processed yet is parked, and those of its key wait behind it. Other keys
// go on.
func Example_parkKeys() {
	orders := topology.Topic("orders", schemas.String(), schemas.String())
	shipped := topology.Topic("orders-shipped", schemas.String(), schemas.String())
	closed := true
	b := topology.NewBuilder("shop", topology.DeadLetters("orders.dead"))
	topology.From(b, orders, topology.ParkKeys()).
		Peek("warehouse", func(r topology.Record[string, string]) error {
			if closed && r.Key == "bolts" {
				return topology.Fail(topology.Transient, schemas.Reason("the warehouse is closed"))
			}
			return nil
		}, topology.OnError(topology.Transient, topology.Policy{Action: topology.Park, Backoff: time.Second, BackoffMax: time.Minute})).
		Into(shipped)
	shop, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := topologytest.New(shop)
	if err != nil {
		fmt.Println(err)
		return
	}
	show := func(when string) {
		records, err := topologytest.Output(d, shipped)
		if err != nil {
			fmt.Println(err)
		}
		for _, r := range records {
			fmt.Println(when, r.Key, r.Value)
		}
	}
	for _, order := range [][2]string{{"bolts", "b1"}, {"nuts", "n1"}, {"bolts", "b2"}} {
		if err := topologytest.Pipe(d, orders, order[0], order[1]); err != nil {
			fmt.Println(err)
			return
		}
	}
	show("at once:")
	closed = false
	if err := d.Advance(time.Minute); err != nil {
		fmt.Println(err)
		return
	}
	show("later:")
	// Output:
	// at once: nuts n1
	// later: bolts b1
	// later: bolts b2
}

// A record that fails waits in a topic of its own, longer after each failure, and nobody waits for
// it: later ones of its key overtake it. After its last attempt it is a dead letter.
func Example_retryTopics() {
	mails := topology.Topic("mails", schemas.String(), schemas.String())
	sent := topology.Topic("mails-sent", schemas.String(), schemas.String())
	failing := map[string]bool{"hello": true, "spam": true}
	b := topology.NewBuilder("post", topology.DeadLetters("mails.dead"))
	topology.From(b, mails, topology.RetryTopics(time.Minute, time.Hour)).
		Peek("server", func(r topology.Record[string, string]) error {
			if failing[r.Value] {
				return topology.Fail(topology.Transient, schemas.Reason("the server is busy"))
			}
			return nil
		}, topology.OnError(topology.Transient, topology.Policy{Action: topology.Delay, Attempts: 3, Then: topology.DeadLetter})).
		Into(sent)
	post, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := topologytest.New(post)
	if err != nil {
		fmt.Println(err)
		return
	}
	show := func(when string) {
		records, err := topologytest.Output(d, sent)
		if err != nil {
			fmt.Println(err)
		}
		for _, r := range records {
			fmt.Println(when, r.Value)
		}
	}
	for _, mail := range []string{"hello", "spam", "news"} {
		if err := topologytest.Pipe(d, mails, "ada", mail); err != nil {
			fmt.Println(err)
			return
		}
	}
	show("at once:")
	delete(failing, "hello")
	for _, delay := range []time.Duration{time.Minute, time.Hour} {
		if err := d.Advance(delay); err != nil {
			fmt.Println(err)
			return
		}
		show("after another " + delay.String() + ":")
	}
	letters, err := d.DeadLetters()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, l := range letters {
		fmt.Printf("dead after %d attempts: %s\n", l.Info.Attempts, l.Info.Message)
	}
	// Output:
	// at once: news
	// after another 1m0s: hello
	// dead after 3 attempts: the server is busy
}
