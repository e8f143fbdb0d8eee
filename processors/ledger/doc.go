// Package ledger adds up contributions exactly once each. The state is the set of contributions,
// keyed by ledger and contribution id. The balance of a ledger is derived from them and stored
// beside them. It can be recomputed and compared at any time ([Check], and onceward state check for
// the state of an instance).
//
//	balances := ledger.Post(payments, "balances", contribution, ledger.Columns("amount", "fee"))
//	balances.Changes().Into(Balances) // a topic with the codec schemas.JSON[ledger.Balance]()
//
// The ledger of a record is its key: an account, a carrier. [PostWindowed] has one for each key and
// window of time.
//
// # Contract
//
// Every record has exactly one outcome, and is counted under its name when the round that contains
// it is applied:
//
//	outcome      when                                           what follows            with EmitConflicts
//	accepted     the ledger has no contribution with the id     Changes
//	duplicates   it has, and it says the same                   Duplicates, or none
//	conflicts    it has, and it says something else             it fails (Conflict)     Conflicts
//	conflicts    it reverses what was reversed already          it fails (Conflict)     Conflicts
//	conflicts    with ComparePayload: the record with the id    it fails (Conflict)     Conflicts
//	             had another payload
//	(failure)    see below                                      it fails (Validation)
//
// The option alone decides whether a conflict fails. Build reports a use of Conflicts without the
// option, and the option without a use of Conflicts.
//
// A duplicate is an outcome and never an error; a conflict is never taken for a duplicate. The
// following fail with class Validation:
//   - a record with a null key, or with a negative event time
//   - a contribution without a usable id (valid UTF-8 of 1 to 1024 bytes), that names itself, or
//     that both corrects and reverses
//   - a correction or reversal of a contribution that the ledger does not have, and a reversal with
//     other amounts
//   - amounts both as integers and as decimals, and a decimal that does not fit into the scale of
//     its column
//   - a balance outside of the range of 64 bits
//
// A failed record becomes a dead letter, unless a policy says otherwise ([OnError]), and leaves
// neither a contribution nor a balance.
//
// # Payloads
//
// A contribution that comes again is compared by what it does: its amounts, and what it corrects or
// reverses. With [ComparePayload] the whole payload of its record is compared, as package inbox
// does it, by a hash in the row of the contribution.
//
// Such a ledger needs no inbox before it to tell duplicates from conflicts, if both would go by the
// same id and the same record key. An inbox costs a second row for each record. It is necessary in
// these cases:
//   - Records with one id have several keys.
//   - The id of the message is not the id of the contribution.
//   - Other steps have to see each record once.
//   - There is a business key.
//
// A ledger can get or lose the option at any time. A row says by its format whether it has a hash.
// Contributions without a hash are compared by what they do. The way payloads are hashed is
// permanent: after a change of it, copies of older contributions are conflicts.
//
// # Amounts
//
// Amounts are integers, of which each contribution has one for each of the declared [Columns]:
// money in its smallest unit, minutes, pieces. A column with a [Scale] takes decimals ([Decimal]),
// which it counts in units of its last place. There are no floats, and nothing is ever rounded or
// wrapped around. A contribution with another number of amounts is an error of class Config, which
// stops the task.
//
// The rows say by a checksum which columns they have, in which order, with which scales and for
// which windows. A program that declares others does not open the tasks that have such rows, and
// says why: money that was counted in cents is never read as euros. A ledger whose columns change
// gets a new name, and is built from its topic.
//
// # Corrections
//
// A contribution never changes. Another contribution with its own id adjusts or reverses a wrong
// one, and names it. Corrects adjusts: the ledger checks only that the named contribution exists,
// and the amounts are those in the record. Reverses takes back: the amounts are those of the named
// contribution with the other sign, whether the record has them or not. A reversed contribution
// cannot be reversed again. A reversal can be reversed: the original contribution stays marked as
// reversed, and its amounts count again.
//
// # Windows
//
// A windowed ledger counts facts, not deliveries. Its contributions have the key (window, id), so
// an event counts once in each of its windows, however often and late it comes. The windows follow
// from the timestamp of the record or from [EventTime], which has to be the fact's own time. A copy
// with another time is another contribution. If windows overlap and both copies are in one of them,
// the copy fails (Conflict).
//
// # Stored form
//
// Two stores belong to a ledger, <name>-contributions and <name>-balances. Integers are big-endian,
// and in two's complement where they have a sign.
//
// The key of a contribution is the encoded ledger key with each byte 00 replaced by 00 FF, then 00
// 01, then the contribution id in UTF-8. So no key is the beginning of another one, and
// contributions lie in the order of the balances, which is that of the encoded ledger keys.
//
//	contribution                                     balance
//	offset  bytes  content                           offset  bytes  content
//	0       1      format, 1                         0       1      format, 2
//	1       1      number of columns n               1       1      number of columns n
//	2       8      timestamp of the record, or       2       8      number of contributions
//	               the time of its windows, in       10      8n     sums
//	               milliseconds since the epoch
//	10      8n     amounts
//	10+8n   rest   id of the contribution that       10+8n   4      checksum of the columns
//	               it corrects, in UTF-8
//
// The checksum is the beginning of the SHA-256 of a text. The text has the names of the columns in
// their order, separated by commas, each with / and its scale if that is not 0. In a windowed
// ledger, @, the size of the windows, / and their advance follow, in milliseconds. Contributions
// are written together with their balance, and need no checksum.
//
// A contribution with the hash of its payload has format 3 instead of 1, or 4 instead of 2. Behind
// the amounts are 32 bytes: SHA-256, or zeros if the value was null.
//
// A contribution that reverses, or was reversed, has format 2. Behind amounts and hash are:
//   - a byte, 0 if it corrects or 1 if it reverses the contribution that it names
//   - the length of that contribution's id in 2 bytes, and the id (both empty for none)
//   - as the rest, the id of the contribution that reverses this one
//
// Builds before the reversals stop at such a row, and builds before the hashes at a row with one.
// In a windowed ledger, ledger keys are those of [WindowCodec].
//
// # Growth
//
// There is no retention: contributions stay, since a balance without them could neither be checked
// nor protected from a contribution that comes again.
//
// # Concurrency
//
// The function that reads the contribution is called by all tasks at once and must be safe for
// that. A [Ledger] is a value that is used while the topology is declared. The codecs are safe for
// concurrent use.
//
// # What it is not
//
// It is no double entry: nothing says that what one ledger gains another one loses. And it is per
// partition: all records of a ledger are in one partition, as Kafka's partitioners see to it.
package ledger
