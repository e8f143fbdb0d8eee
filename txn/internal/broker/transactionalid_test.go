package broker

import (
	"fmt"
	"strings"
	"testing"
)

// TestTransactionalIDs: rule 1.2. No two producers of whatever applications, instances, workers and
// turns share an id, and the prefix of an application begins the ids of no other one, although the
// names run into each other in every way that they may.
func TestTransactionalIDs(t *testing.T) {
	names := []string{"a", "aa", "a-a", "a.a", "a_a", "a-", "-a", "0", "1", "00", "10", "1-0", "1.0", "0-0", "a0", "a1", "a-0", "a-1", "a_0_1"}
	of := map[string]string{}
	for _, application := range names {
		for _, instance := range names {
			for _, worker := range []int{0, 1, 10, 11, 100} {
				for turn := range 2 {
					id, who := TransactionalID(application, instance, worker, turn), fmt.Sprint(application, " ", instance, " ", worker, " ", turn)
					if other, taken := of[id]; taken {
						t.Errorf("%s is the id of %s and of %s", id, other, who)
					}
					of[id] = who
					for _, prefix := range names {
						if strings.HasPrefix(id, TransactionalPrefix(prefix)) != (prefix == application) {
							t.Errorf("the prefix of %s and the id %s of %s", prefix, id, application)
						}
					}
				}
			}
		}
	}
}
