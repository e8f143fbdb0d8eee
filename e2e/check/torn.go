package check

import "fmt"

// torn judges transactions: whether an output and the move past its input are in the same one,
// whether it ended alike everywhere, and whether something was processed by the transaction that
// wrote it.
type torn struct{ *judge }

func newTorn(j *judge) *torn { return &torn{j} }

func (t *torn) see(e *Event) {
	if e.Read == nil || e.Read.Reader != LogReader {
		return
	}
	r := e.Read
	i, ok := t.outputs[r.Topic]
	if !ok {
		return
	}
	o := &t.spec.Outputs[i]
	for n, id := range r.IDs {
		if t.committed(r, n) {
			t.seeOutput(o, r, n, id)
		}
	}
}

func (t *torn) seeOutput(o *Output, r *Records, n int, id uint32) {
	at, there := t.place(o.From, id)
	if !there {
		return // a phantom
	}
	a := Anomaly{Kind: Torn, Topic: r.Topic, Partition: r.Partition, Offset: r.Offsets[n], ID: id}
	switch p, covered := t.covering(o.From, at); {
	case !covered:
		a.Detail = "no position past its input was ever committed"
		t.found(a)
	case r.Txn == NoTxn:
		a.Detail = "it was written outside of a transaction"
		t.found(a)
	case p.txn == nil:
		a.Detail = "the position past its input was committed outside of a transaction"
		t.found(a)
	case p.txn.name != r.Txn:
		a.Detail = fmt.Sprintf("it is in transaction %v, the position past its input in %v", r.Txn, p.txn.name)
		t.found(a)
	}
	if o.From != t.spec.Repartition || int(id) >= len(t.writers) {
		return
	}
	if own := t.txns[r.Txn]; own != nil && own.number == t.writers[id] {
		a.Kind, a.Detail = Precommitted, "one transaction wrote its input and processed it"
		t.found(a)
	}
}

func (t *torn) end() {
	for _, x := range t.txns {
		if x.committed && x.aborted {
			t.found(Anomaly{Kind: Torn, Topic: "transaction", Offset: -1,
				Detail: fmt.Sprintf("%v is committed in one partition and aborted in another", x.name)})
		}
		for i, o := range t.spec.Outputs {
			if o.Store == "" || x.outputs&(1<<i) == 0 {
				continue
			}
			for s := range t.spec.Stores {
				if t.spec.Stores[s].Name == o.Store && x.changelogs&(1<<s) == 0 {
					t.found(Anomaly{Kind: Torn, Topic: o.Topic, Offset: -1,
						Detail: fmt.Sprintf("transaction %v wrote to it and not to the changelog of %s", x.name, o.Store)})
				}
			}
		}
	}
	for lp, waiting := range t.pending {
		told := map[Txn]bool{}
		for _, u := range waiting {
			if name := u.txn(); !told[name] {
				told[name] = true
				t.endOpen(lp, name)
			}
		}
	}
	for topic, partitions := range t.positions {
		for p, commits := range partitions {
			for i := 1; i < len(commits); i++ {
				if commits[i].next < commits[i-1].next {
					t.found(Anomaly{Kind: Torn, Topic: topic, Partition: int32(p), Offset: commits[i].next,
						Detail: fmt.Sprintf("the committed position went back from %d", commits[i-1].next)})
				}
			}
		}
	}
}

// endOpen judges what never got a marker. A transaction that is committed elsewhere is torn once
// nothing is in flight.
func (t *torn) endOpen(lp logProducer, name Txn) {
	if x := t.txns[name]; t.quiesced && x.committed {
		t.found(Anomaly{Kind: Torn, Topic: lp.topic, Partition: lp.partition, Offset: -1,
			Detail: fmt.Sprintf("transaction %v is committed elsewhere and open here", name)})
	}
}
