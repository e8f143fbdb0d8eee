package assign

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/topology/graph"
)

// members joins and settles: they hold what the last plan gave them.
func hold(r Request, out Result) Request {
	r.Members = slices.Clone(r.Members)
	for i := range r.Members {
		r.Members[i].Owned = out.Assigned[r.Members[i].ID]
		r.Members[i].Generation = int32(r.ID)
	}
	previous := out.Plan
	r.Previous = &previous
	r.ID++
	return r
}

// settled balances until nothing is pending, at most twice: one round of revokes is all that a
// stable group needs.
func settled(t *rapid.T, r Request) (Request, Result) {
	out := Balance(r)
	if len(out.Plan.Pending) > 0 {
		r = hold(r, out)
		if out = Balance(r); len(out.Plan.Pending) > 0 {
			t.Fatalf("the second plan has pending moves again: %+v", out.Plan.Pending)
		}
	}
	return hold(r, out), out
}

func drawRequest(t *rapid.T, most int) Request {
	join := Join{Fingerprint: [8]byte{7}}
	r := Request{ID: 1, Partitions: map[string]int32{}}
	for i := range rapid.IntRange(1, 4).Draw(t, "subtopologies") {
		s := Subtopology{Name: fmt.Sprint("s", i)}
		n := rapid.Int32Range(1, 12).Draw(t, "partitions")
		for j := range rapid.IntRange(1, 3).Draw(t, "sources") {
			topic := fmt.Sprintf("s%d-%d", i, j)
			s.Sources = append(s.Sources, topic)
			r.Partitions[topic] = n
		}
		join.Subtopologies = append(join.Subtopologies, s)
	}
	for i := range rapid.IntRange(1, most).Draw(t, "members") {
		r.Members = append(r.Members, Member{ID: fmt.Sprint("m", i), Instance: fmt.Sprint("i", i), Generation: -1, Join: join})
	}
	return r
}

// owners returns who is assigned each task, and fails where a task is torn apart or given twice.
func owners(t *rapid.T, r Request, out Result) map[graph.TaskID]string {
	all := map[graph.TaskID]string{}
	for _, s := range r.Members[0].Join.Subtopologies {
		for n := range r.Partitions[s.Sources[0]] {
			id := graph.TaskID{Subtopology: s.Name, Partition: n}
			for _, m := range r.Members {
				has := 0
				for _, topic := range s.Sources {
					if slices.Contains(out.Assigned[m.ID][topic], n) {
						has++
					}
				}
				switch {
				case has == 0:
				case has != len(s.Sources):
					t.Fatalf("%s has %d of %d inputs of %s", m.ID, has, len(s.Sources), id)
				case all[id] != "":
					t.Fatalf("%s is at %s and at %s", id, all[id], m.ID)
				default:
					all[id] = m.ID
				}
			}
			for _, m := range r.Members {
				if got := out.Plan.Owner(id); m.ID == all[id] && got != m.Key() {
					t.Fatalf("the plan says that %s is at %q, and it is at %s", id, got, m.Key())
				}
			}
		}
	}
	if len(out.Plan.Owners) != len(all) {
		t.Fatalf("the plan names %d owners, and %d tasks are assigned", len(out.Plan.Owners), len(all))
	}
	return all
}

func checkEven(t *rapid.T, r Request, all map[graph.TaskID]string) {
	counts := map[string]map[string]int{}
	total := 0
	for _, s := range r.Members[0].Join.Subtopologies {
		total += int(r.Partitions[s.Sources[0]])
	}
	if len(all) != total {
		t.Fatalf("%d of %d tasks have an owner", len(all), total)
	}
	for id, m := range all {
		for _, what := range []string{"all", id.Subtopology} {
			if counts[what] == nil {
				counts[what] = map[string]int{}
			}
			counts[what][m]++
		}
	}
	for what, of := range counts {
		least, most := total, 0
		for _, m := range r.Members {
			least, most = min(least, of[m.ID]), max(most, of[m.ID])
		}
		if most-least > 1 {
			t.Fatalf("%s: from %d to %d tasks: %v", what, least, most, of)
		}
	}
}

func TestEveryTaskOnceAndEven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, out := settled(t, drawRequest(t, 7))
		all := owners(t, r, out)
		checkEven(t, r, all)
		if again := Balance(r); !reflect.DeepEqual(owners(t, r, again), all) {
			t.Fatal("a plan without a change moves tasks")
		}
	})
}

// TestJoinAndLeaveMoveLittle: a new member takes its share, and what a member leaves behind goes to
// the others. With one subtopology nothing else moves.
func TestJoinAndLeaveMoveLittle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, out := settled(t, drawRequest(t, 6))
		before := owners(t, r, out)
		joined := r
		joined.Members = append(slices.Clone(r.Members), Member{ID: "new", Instance: "new", Generation: -1, Join: r.Members[0].Join})
		joined, out = settled(t, joined)
		after := owners(t, joined, out)
		checkEven(t, joined, after)
		checkMoves(t, joined, before, after, func(id graph.TaskID) bool { return after[id] == "new" })
		gone := rapid.IntRange(0, len(joined.Members)-1).Draw(t, "gone")
		left := joined
		left.Members = slices.Delete(slices.Clone(joined.Members), gone, gone+1)
		if len(left.Members) == 0 {
			return
		}
		id := joined.Members[gone].ID
		left, out = settled(t, left)
		last := owners(t, left, out)
		checkEven(t, left, last)
		checkMoves(t, left, after, last, func(task graph.TaskID) bool { return after[task] == id })
	})
}

// checkMoves allows what has to move, and one more for each further subtopology: being even in each
// of them and in total may need it.
func checkMoves(t *rapid.T, r Request, before, after map[graph.TaskID]string, must func(graph.TaskID) bool) {
	moved := 0
	for id, m := range after {
		if m != before[id] && !must(id) {
			moved++
		}
	}
	if most := len(r.Members[0].Join.Subtopologies) - 1; moved > most {
		t.Fatalf("%d tasks moved that had no need to, more than %d:\n%v\n%v", moved, most, before, after)
	}
}

// TestNothingIsGivenWhileItIsHeld: whatever members claim, no partition is given to one while
// another one holds it.
func TestNothingIsGivenWhileItIsHeld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRequest(t, 5)
		for i := range r.Members {
			m := &r.Members[i]
			m.Generation = rapid.Int32Range(1, 3).Draw(t, "generation")
			m.Owned = map[string][]int32{}
			for _, topic := range slices.Sorted(maps.Keys(r.Partitions)) {
				for n := range r.Partitions[topic] {
					if rapid.IntRange(0, 2).Draw(t, "holds") == 0 {
						m.Owned[topic] = append(m.Owned[topic], n)
					}
				}
			}
		}
		out := Balance(r)
		owners(t, r, out)
		for _, to := range r.Members {
			for topic, numbers := range out.Assigned[to.ID] {
				for _, n := range numbers {
					for _, other := range r.Members {
						mine := slices.Contains(to.Owned[topic], n) && to.Generation > other.Generation
						if other.ID != to.ID && slices.Contains(other.Owned[topic], n) && !mine && other.Generation >= highest(r, topic, n) {
							t.Fatalf("%s[%d] is given to %s while %s holds it", topic, n, to.ID, other.ID)
						}
					}
				}
			}
		}
		// Two rounds of revokes end any such state: torn tasks are collected in the first.
		r, out = settled(t, hold(r, out))
		checkEven(t, r, owners(t, r, out))
	})
}

func highest(r Request, topic string, n int32) int32 {
	most := int32(-1)
	for _, m := range r.Members {
		if slices.Contains(m.Owned[topic], n) {
			most = max(most, m.Generation)
		}
	}
	return most
}

func TestOrderOfMembersDoesNotCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRequest(t, 6)
		shuffled := r
		shuffled.Members = rapid.Permutation(r.Members).Draw(t, "order")
		if a, b := Balance(r), Balance(shuffled); !reflect.DeepEqual(a, b) {
			t.Fatalf("two orders, two plans:\n%+v\n%+v", a, b)
		}
	})
}

func simple(n int32, keys ...string) Request {
	r := Request{ID: 5, Partitions: map[string]int32{"in": n}}
	for _, key := range keys {
		r.Members = append(r.Members, Member{ID: key + "-id", Instance: key, Generation: -1,
			Join: Join{Subtopologies: []Subtopology{{Name: "in", Sources: []string{"in"}}}}})
	}
	return r
}

func in(n int32) graph.TaskID { return graph.TaskID{Subtopology: "in", Partition: n} }

// TestStateDecides: a task without an owner goes to the furthest state, as long as there is room.
func TestStateDecides(t *testing.T) {
	r := simple(4, "a", "b", "c")
	r.Members[0].Join.Local = []LocalTask{{in(0), 5}, {in(3), 0}}
	r.Members[1].Join.Local = []LocalTask{{in(0), 4}, {in(1), 9}}
	r.Members[2].Join.Local = []LocalTask{{in(0), 9}, {in(1), 8}}
	got := Balance(r).Assigned
	for id, want := range map[string]int32{"a-id": 3, "b-id": 1, "c-id": 0} {
		if !slices.Contains(got[id]["in"], want) {
			t.Errorf("%s has %v, want %d among them", id, got[id]["in"], want)
		}
	}
}

// TestOwnerBeforeState: a member that works continues to work, however far the state of another
// member is.
func TestOwnerBeforeState(t *testing.T) {
	r := simple(2, "a", "b")
	r.Members[0].Owned, r.Members[0].Generation = map[string][]int32{"in": {1}}, 4
	r.Members[1].Join.Local = []LocalTask{{in(1), 99}}
	if got := Balance(r).Assigned; !reflect.DeepEqual(got["a-id"]["in"], []int32{1}) {
		t.Errorf("assigned %v, want in_1 to stay at a", got)
	}
}

// TestReturnTakesItsStateBack: of the tasks that have to move, those move whose state the new
// member has.
func TestReturnTakesItsStateBack(t *testing.T) {
	r := simple(6, "a", "b")
	r.Members[0].Owned, r.Members[0].Generation = map[string][]int32{"in": {0, 1, 2, 3, 4, 5}}, 4
	r.Members[1].Join.Local = []LocalTask{{in(1), 7}, {in(2), 0}, {in(4), 7}}
	var moved []int32
	for _, m := range Balance(r).Plan.Pending {
		moved = append(moved, m.Task.Partition)
	}
	if want := []int32{1, 2, 4}; !reflect.DeepEqual(moved, want) {
		t.Errorf("moves %v, want %v", moved, want)
	}
}

// TestRestartWhileJoining: a member that lost its claims to a restart keeps its tasks, although
// another one has more known state of them.
func TestRestartWhileJoining(t *testing.T) {
	r := simple(4, "a", "b")
	first := Balance(r)
	r = hold(r, first)
	restarted := &r.Members[1]
	had := first.Assigned[restarted.ID]["in"]
	restarted.Owned, restarted.Generation, restarted.ID = nil, -1, "b-next"
	for _, n := range had {
		r.Members[0].Join.Local = append(r.Members[0].Join.Local, LocalTask{in(n), 99})
		restarted.Join.Local = append(restarted.Join.Local, LocalTask{in(n), 0})
	}
	r.Members = append(r.Members, simple(4, "c").Members...)
	r.Members[2].Join.Local = r.Members[0].Join.Local
	r.Last = first.Owners
	out := Balance(r)
	if got := out.Assigned["b-next"]["in"]; len(got) == 0 || !slices.Contains(had, got[0]) || len(out.Assigned["a-id"]["in"]) == 0 {
		t.Errorf("had %v, now %v: %v", had, got, out.Assigned)
	}
	r.Members = r.Members[:2]
	if got := Balance(r).Assigned["b-next"]["in"]; !slices.Equal(got, had) {
		t.Errorf("without another member: had %v, now %v", had, got)
	}
}

func TestStoppedTasksStay(t *testing.T) {
	r := simple(6, "a", "b")
	r.Members[0].Owned, r.Members[0].Generation = map[string][]int32{"in": {0, 1, 2, 3, 4, 5}}, 4
	r.Members[0].Join.Stopped = []StoppedTask{{Task: in(0)}, {Task: in(2)}, {Task: in(3)}, {Task: in(4)}}
	out := Balance(r)
	if got := out.Assigned["a-id"]["in"]; len(got) != 5 || !containsAll(got, 0, 2, 3, 4) {
		t.Errorf("a keeps %v, want the stopped tasks and one that works", got)
	}
	if a, b := out.Plan.Entries[0].Stopped, out.Plan.Entries[1].Stopped; a != 4 || b != 0 {
		t.Errorf("the plan says that it left out %d tasks of a and %d of b, want 4 and 0", a, b)
	}
	if len(out.Plan.Pending) != 1 || out.Plan.Pending[0].To != "b" {
		t.Errorf("pending %v, want one task to b", out.Plan.Pending)
	}
	// With one more stopped there is one task that works, and it is not taken away: a process with
	// stopped tasks only would end.
	r.Members[0].Join.Stopped = append(r.Members[0].Join.Stopped, StoppedTask{Task: in(1)})
	if out = Balance(r); len(out.Assigned["a-id"]["in"]) != 6 || len(out.Plan.Pending) > 0 {
		t.Errorf("assigned %v, pending %v, want that a keeps its last task that works", out.Assigned, out.Plan.Pending)
	}
}

func containsAll(in []int32, wanted ...int32) bool {
	return !slices.ContainsFunc(wanted, func(n int32) bool { return !slices.Contains(in, n) })
}

func TestConflicts(t *testing.T) {
	r := simple(1, "a", "b")
	for i := range r.Members {
		r.Members[i].Owned = map[string][]int32{"in": {0}}
	}
	r.Members[0].Generation, r.Members[1].Generation = 3, 4
	if out := Balance(r); !reflect.DeepEqual(out.Assigned["b-id"]["in"], []int32{0}) || len(out.Assigned["a-id"]) > 0 {
		t.Errorf("assigned %v, want the higher generation to keep it", out.Assigned)
	}
	r.Members[0].Generation = 4
	if out := Balance(r); len(out.Assigned["a-id"])+len(out.Assigned["b-id"]) > 0 || len(out.Plan.Pending) != 1 {
		t.Errorf("assigned %v, want nobody to have what two hold in the same generation", out.Assigned)
	}
}

// TestUnreadableMember: it keeps nothing, gets nothing, and nothing of its is given away before it
// let go.
func TestUnreadableMember(t *testing.T) {
	r := simple(4, "a", "b")
	r.Members[0].Owned, r.Members[0].Generation, r.Members[0].Join = map[string][]int32{"in": {0, 1}}, 4, Join{}
	out := Balance(r)
	if len(out.Assigned["a-id"]) > 0 || !reflect.DeepEqual(out.Assigned["b-id"]["in"], []int32{2, 3}) || len(out.Plan.Pending) != 2 {
		t.Errorf("assigned %v, pending %v", out.Assigned, out.Plan.Pending)
	}
	if out = Balance(hold(r, out)); !reflect.DeepEqual(out.Assigned["b-id"]["in"], []int32{0, 1, 2, 3}) {
		t.Errorf("then assigned %v", out.Assigned)
	}
}

func TestMixedVersions(t *testing.T) {
	with := func(subs ...Subtopology) Join { return Join{Subtopologies: subs} }
	joined := Subtopology{Name: "a", Sources: []string{"a", "b"}}
	apart := []Subtopology{{Name: "a", Sources: []string{"a"}}, {Name: "b", Sources: []string{"b"}}}
	r := simple(0, "1", "2", "3")
	r.Partitions = map[string]int32{"a": 3, "b": 3}
	r.Members[0].Join, r.Members[1].Join, r.Members[2].Join = with(joined), with(joined), with(apart...)
	out := Balance(r)
	if got := out.Assigned["3-id"]; len(got) > 0 {
		t.Errorf("the only one that knows the new subtopologies has %v", got)
	}
	for n := range int32(3) {
		has := 0
		for _, m := range r.Members {
			if slices.Contains(out.Assigned[m.ID]["a"], n) && slices.Contains(out.Assigned[m.ID]["b"], n) {
				has++
			}
		}
		if has != 1 {
			t.Errorf("a_%d has %d owners", n, has)
		}
	}
	r.Members[1].Join = with(apart...)
	if got := Balance(r).Assigned["1-id"]; len(got) > 0 {
		t.Errorf("the last old member has %v", got)
	}
	// A task beyond the bound of its only member has no member.
	r = simple(4, "a", "b")
	r.Members[0].Join.Subtopologies[0].PartitionsMax = 2
	r.Members[1].Join.Subtopologies[0].PartitionsMax = 3
	out = Balance(r)
	if got := append(out.Assigned["a-id"]["in"], out.Assigned["b-id"]["in"]...); len(got) != 3 || slices.Contains(got, 3) {
		t.Errorf("assigned %v with bounds 2 and 3", out.Assigned)
	}
}

// TestUnknownTopic: while the number of partitions is not known, tasks stay where they are.
func TestUnknownTopic(t *testing.T) {
	r := simple(4, "a", "b")
	r.Members[0].Owned, r.Members[0].Generation = map[string][]int32{"in": {0, 1}}, 4
	r.Members[1].Owned, r.Members[1].Generation = map[string][]int32{"in": {2, 3}}, 4
	delete(r.Partitions, "in")
	out := Balance(r)
	if !reflect.DeepEqual(out.Assigned["a-id"]["in"], []int32{0, 1}) || !reflect.DeepEqual(out.Assigned["b-id"]["in"], []int32{2, 3}) {
		t.Errorf("assigned %v", out.Assigned)
	}
}

func BenchmarkBalance(b *testing.B) {
	r := Request{ID: 1, Partitions: map[string]int32{}}
	var join Join
	for i := range 10 {
		topic := fmt.Sprint("t", i)
		join.Subtopologies = append(join.Subtopologies, Subtopology{Name: topic, Sources: []string{topic}})
		r.Partitions[topic] = 100
	}
	for i := range 50 {
		r.Members = append(r.Members, Member{ID: fmt.Sprint(i), Generation: -1, Join: join})
	}
	r = hold(r, Balance(r))
	r.Members = append(r.Members, Member{ID: "new", Generation: -1, Join: join})
	for b.Loop() {
		Balance(r)
	}
}
