package txn

import (
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/topics"
)

// Permission is one thing that the principal of an application has to be allowed, in the words of
// Kafka's ACLs.
type Permission struct {
	// Operation is that of the ACL: Read, Write, Create, Delete, Describe, DescribeConfigs or
	// ClusterAction. Read and Write imply Describe.
	Operation string
	// Resource is its type: Topic, Group, TransactionalId or Cluster.
	Resource string
	Name     string
	// Prefix says that Name is a prefix (--resource-pattern-type prefixed), and not a whole name.
	Prefix bool
	// Why says what it is for.
	Why string
}

// Permissions returns every permission that running the topology takes, and no other: all instances
// of an application can share one principal that has nothing else. Create is not needed if the
// internal topics exist already.
//
// Missing permissions are reported at start, before anything is processed. For topics the instance
// asks the brokers and reports all missing ones in one error, before it changes anything. For the
// group and the transactions the first request that needs a permission reports it.
//
// One permission is not among them, because the topology does not say that it needs it. If a source
// has lost its ParkKeys, and records were ever parked, the application needs Read on the changelog
// of its parked records. It needs this until every task has committed without the option
// ([topology.ParkKeys]).
func Permissions(t *topology.Topology) []Permission {
	return permissionsOf(topics.Needs(t))
}

// RepairPermissions returns what it takes beyond Permissions to find hanging transactions in the
// topics of the topology and to repair them. The principal that repairs can be another one than
// that of the instances. Where it may not read a topic, what hangs there is not found; where it has
// no ClusterAction, it is found and not repaired. Transactions of other applications are named by
// their transactional ids where the principal may describe those (Describe on TransactionalId).
func RepairPermissions(t *topology.Topology) []Permission {
	return permissionsOf(topics.RepairNeeds(t))
}

func permissionsOf(needs []topics.Need) []Permission {
	out := make([]Permission, len(needs))
	for i, n := range needs {
		out[i] = Permission{string(n.Operation), string(n.Resource), n.Name, n.Prefix, n.Why}
	}
	return out
}
