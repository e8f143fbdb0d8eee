package assign

import (
	"testing"
	"time"
)

// TestSubscribeForces: a process that has other subtopologies in its next membership forces a
// rebalance, because its member gets its old assignment. A process with the same ones does not:
// that is the negative control.
func TestSubscribeForces(t *testing.T) {
	eu, us := Subtopology{Name: "eu", Sources: []string{"eu"}}, Subtopology{Name: "us", Sources: []string{"us"}}
	for _, changes := range []bool{false, true} {
		m := NewSelf(Process{Instance: "me", Subtopologies: []Subtopology{eu}, RevokeMax: time.Second})
		plan := Plan{ID: 1, Entries: []Entry{m.Join(nil, nil).Entry("me")}}
		m.Planned(time.Unix(1000, 0), plan, false, 0)
		m.Left()
		if changes {
			m.Subscribe([]Subtopology{eu, us})
		}
		if got := len(m.Join(nil, nil).Subtopologies); (got == 2) != changes || got != len(m.Subtopologies()) {
			t.Errorf("the join has %d subtopologies, changed: %t", got, changes)
		}
		m.Planned(time.Unix(1001, 0), plan, false, 0)
		at, why, ok := m.Due(0, nil)
		if ok != changes || ok && (why != Described || at.After(time.Unix(1001, 0))) {
			t.Errorf("changed: %t, due %v %q %t", changes, at, why, ok)
		}
	}
}

// TestMembersSeeOtherTopics: of two members, one knows a topic more. As subtopologies of their own
// no topic disturbs another: what both know does not move, and the new topic is at the member that
// knows it. The negative control has all topics in one subtopology: one of the two members loses
// all of its tasks.
func TestMembersSeeOtherTopics(t *testing.T) {
	apart := func(topics ...string) (out []Subtopology) {
		for _, topic := range topics {
			out = append(out, Subtopology{Name: topic, Sources: []string{topic}})
		}
		return out
	}
	together := func(topics ...string) []Subtopology { return []Subtopology{{Name: "events", Sources: topics}} }
	for name, subtopologies := range map[string]func(topics ...string) []Subtopology{"apart": apart, "together": together} {
		r := Request{ID: 1, Partitions: map[string]int32{"a": 4, "b": 4, "c": 4}}
		for _, id := range []string{"one", "two"} {
			r.Members = append(r.Members, Member{ID: id, Instance: id, Generation: -1, Join: Join{Subtopologies: subtopologies("a", "b")}})
		}
		before := Balance(r)
		r = hold(r, before)
		r.Members[1].Join.Subtopologies = subtopologies("a", "b", "c")
		after := Balance(r)
		r = hold(r, after)
		after = Balance(r) // what moves is given up by now
		kept, added := true, len(after.Assigned["two"]["c"]) == 4 && len(after.Assigned["one"]["c"]) == 0
		for _, id := range []string{"one", "two"} {
			for _, topic := range []string{"a", "b"} {
				kept = kept && len(after.Assigned[id][topic]) > 0
			}
		}
		if want := name == "apart"; kept != want || added != want {
			t.Errorf("%s: both keep a part of the known topics: %t, the new one is read: %t; %v", name, kept, added, after.Assigned)
		}
	}
}
