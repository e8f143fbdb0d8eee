// Package access runs applications against a real Kafka that wants authentication and denies what no ACL allows. It shows that
// txn.Permissions is exactly what an application needs: with the list everything works, and without any one entry there is one
// error that names it and no data is changed. Brokers that are too old for the runtime are here too.
//
// It has tests only.
package access
