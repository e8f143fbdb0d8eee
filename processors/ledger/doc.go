// Package ledger adds up contributions exactly once each. The state is the set of contributions, keyed by
// ledger and contribution id; the balance of a ledger is derived from them, kept beside them, and can be
// recomputed and compared at any time ([Check]).
//
//	balances := ledger.Post(payments, "balances", contribution, ledger.Columns("amount", "fee"))
//	balances.Changes().Into(Balances) // a topic with the codec schemas.JSON[ledger.Balance]()
//
// The ledger of a record is its key: an account, a carrier, a window.
//
// # Contract
//
// Every record has exactly one outcome, and is counted under its name when the round that contains it is
// applied:
//
//	outcome      when                                           goes to       if that is not connected
//	accepted     the ledger has no contribution with the id     Changes
//	duplicates   it has, with the same amounts and correction   Duplicates    the record ends
//	conflicts    it has, with others                            Conflicts     the record fails (Conflict)
//	(failure)    see below                                                    the record fails (Validation)
//
// A duplicate is an outcome and never an error; a conflict is never taken for a duplicate. These fail with
// class Validation: a record with a null key, a contribution without a usable id (valid UTF-8 of 1 to 1024
// bytes), a correction of a contribution that the ledger does not have, and a balance that would leave the
// range of 64 bits. What fails becomes a dead letter, unless a policy says otherwise ([OnError]), and leaves
// neither a contribution nor a balance.
//
// # Amounts
//
// Amounts are integers, of which each contribution has one for each of the declared [Columns]: money in its
// smallest unit, minutes, pieces. There are no floats, and nothing is ever rounded or wrapped around. A
// contribution with another number of amounts, or a ledger whose rows have other columns than the program,
// is an error of class Config, which stops the task: a ledger whose columns change gets a new name.
//
// # Corrections
//
// A contribution is never changed. One that was wrong is reversed or adjusted by another one, with an id of
// its own, which names in Corrects what it corrects. The ledger holds it to that name and to nothing else:
// the amounts of a correction are those that the record states.
//
// # Stored form
//
// Two stores belong to a ledger, <name>-contributions and <name>-balances. Integers are big-endian, and in
// two's complement where they have a sign.
//
// The key of a contribution is the encoded ledger key with each byte 00 replaced by 00 FF, then 00 01, then
// the contribution id in UTF-8. So no key is the beginning of another one, and contributions lie in the
// order of the balances, which is that of the encoded ledger keys.
//
//	contribution                                     balance
//	offset  bytes  content                           offset  bytes  content
//	0       1      format, 1                         0       1      format, 1
//	1       1      number of columns n               1       1      number of columns n
//	2       8      timestamp of the record, in       2       8      number of contributions
//	               milliseconds since the epoch      10      8n     sums
//	10      8n     amounts
//	10+8n   rest   id of the contribution that
//	               it corrects, in UTF-8
//
// # Growth
//
// There is no retention: contributions stay, since a balance without them could neither be checked nor
// protected from a contribution that comes again.
//
// # Concurrency
//
// The function that reads the contribution is called by all tasks at once and must be safe for that. A
// [Ledger] is a value that is used while the topology is declared. The codecs are safe for concurrent use.
//
// # What it is not
//
// It is no double entry: nothing says that what one ledger gains another one loses. And it is per partition:
// all records of a ledger are in one partition, as Kafka's partitioners see to it.
package ledger
