package broker

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Permission is something that a principal has to be allowed, in the words of Kafka's ACLs.
type Permission struct {
	Operation Operation
	Resource  ResourceType
	Name      string
	// Prefix says that Name is the beginning of the names that are meant.
	Prefix bool
}

// Operation is an operation of an ACL.
type Operation string

// The operations that the runtime needs.
const (
	Read            Operation = "Read"
	Write           Operation = "Write"
	Create          Operation = "Create"
	Delete          Operation = "Delete"
	DescribeConfigs Operation = "DescribeConfigs"
	// Describe is implied by Read, Write and Delete.
	Describe Operation = "Describe"
	// ClusterAction is for writing markers. Running a topology does not take it.
	ClusterAction Operation = "ClusterAction"
)

// ResourceType is a type of resource of an ACL.
type ResourceType string

// The resource types that the runtime needs.
const (
	TopicResource           ResourceType = "Topic"
	GroupResource           ResourceType = "Group"
	TransactionalIDResource ResourceType = "TransactionalId"
	ClusterResource         ResourceType = "Cluster"
)

// ClusterName is the name of the only resource of the type Cluster.
const ClusterName = "kafka-cluster"

func (p Permission) String() string {
	if p.Prefix {
		return fmt.Sprintf("%s on every %s that begins with %q", p.Operation, p.Resource, p.Name)
	}
	return fmt.Sprintf("%s on %s %q", p.Operation, p.Resource, p.Name)
}

// PermissionError says what the principal of this process is not allowed and needs.
type PermissionError struct {
	// Principal is who this process authenticates as, as far as it knows.
	Principal string
	Missing   []Permission
	// Err is what the broker answered.
	Err error
}

func (e *PermissionError) Error() string {
	texts := make([]string, len(e.Missing))
	for i, p := range e.Missing {
		texts[i] = p.String()
	}
	return fmt.Sprintf("%s has no permission to %s: grant it (kafka-acls.sh --add --allow-principal ...): %v",
		e.Principal, strings.Join(texts, ", "), e.Err)
}

// Unwrap returns what the broker answered.
func (e *PermissionError) Unwrap() error { return e.Err }

// Denied returns a PermissionError for permissions that were found to be missing without being
// tried.
func (c *Cluster) Denied(missing []Permission) error {
	return &PermissionError{c.cfg.Secure.principal(), missing, kerr.TopicAuthorizationFailed}
}

// attempt is what a request was about. Of the resources only those that can be refused are set.
type attempt struct {
	operation       Operation // on the topic
	topic           string
	group           string
	transactionalID string
	cluster         Operation // on the cluster
}

// denied explains an answer that says that a permission is missing, and returns any other error as
// it is.
func (c Config) denied(err error, a attempt) error {
	var told *PermissionError
	if err == nil || errors.As(err, &told) {
		return err
	}
	var missing Permission
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed) && a.topic != "":
		missing = Permission{a.operation, TopicResource, a.topic, false}
	case errors.Is(err, kerr.GroupAuthorizationFailed) && a.group != "":
		missing = Permission{Read, GroupResource, a.group, false}
	case errors.Is(err, kerr.TransactionalIDAuthorizationFailed) && a.transactionalID != "":
		application, _, _ := strings.Cut(a.transactionalID, IDSeparator)
		missing = Permission{Write, TransactionalIDResource, TransactionalPrefix(application), true}
	case errors.Is(err, kerr.ClusterAuthorizationFailed) && a.cluster != "":
		missing = Permission{a.cluster, ClusterResource, ClusterName, false}
	default:
		return err
	}
	return &PermissionError{c.Secure.principal(), []Permission{missing}, err}
}

// operationBits are the positions of operations in Kafka's bit field of authorized operations
// (KIP-430).
var operationBits = map[Operation]kmsg.ACLOperation{
	Read: kmsg.ACLOperationRead, Write: kmsg.ACLOperationWrite, Create: kmsg.ACLOperationCreate, Delete: kmsg.ACLOperationDelete,
	Describe: kmsg.ACLOperationDescribe, DescribeConfigs: kmsg.ACLOperationDescribeConfigs,
}

// operationsUnknown is the bit field of a broker that does not say.
const operationsUnknown = -1 << 31

func allowed(bits int32) []Operation {
	var out []Operation
	for op, bit := range operationBits {
		if bits == operationsUnknown || bits&(1<<bit) != 0 {
			out = append(out, op)
		}
	}
	slices.Sort(out)
	return out
}
