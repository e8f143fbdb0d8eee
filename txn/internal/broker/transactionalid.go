package broker

import "fmt"

// IDSeparator joins the parts of a transactional id. No part may contain it, so that no two
// applications can build the same id, and a prefix names exactly one application.
const IDSeparator = "~"

// TransactionalID names the producer of a committer of a worker.
func TransactionalID(application, instance string, worker, committer int) string {
	return fmt.Sprintf("%s%d%s%d", InstancePrefix(application, instance), worker, IDSeparator, committer)
}

// InstancePrefix is what the transactional ids of an instance, and of no other, begin with.
func InstancePrefix(application, instance string) string {
	return TransactionalPrefix(application) + instance + IDSeparator
}

// LiveID is the transactional id by which an instance shows that it lives. No transaction is begun
// under it.
func LiveID(application, instance string) string {
	return InstancePrefix(application, instance) + "live"
}

// TransactionalPrefix is what the transactional ids of an application, and of no other, begin with.
func TransactionalPrefix(application string) string { return application + IDSeparator }
