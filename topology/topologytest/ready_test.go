package topologytest

import (
	"fmt"
	"testing"
)

func TestReady(t *testing.T) {
	for _, n := range []int{1, 64, 65, 200} {
		r := newReady(n)
		if got := r.from(0); got != -1 {
			t.Fatalf("%d tasks, none ready: %d", n, got)
		}
		var want, got []int
		for i := 0; i < n; i += 7 {
			r.add(i)
			want = append(want, i)
		}
		r.add(n - 1)
		if want[len(want)-1] != n-1 {
			want = append(want, n-1)
		}
		for i := r.from(0); i >= 0; i = r.from(i + 1) {
			got = append(got, i)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%d tasks: %v, want %v", n, got, want)
		}
		for _, i := range want {
			r.remove(i)
		}
		if got := r.from(0); got != -1 {
			t.Errorf("%d tasks, all removed: %d", n, got)
		}
	}
}
