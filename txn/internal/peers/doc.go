// Package peers lets the instances of one application watch each other, so that the death of a
// process is noticed when its sockets close and not when the session of its group member times out.
// It knows no Kafka. The runtime gives it the members of the group's plan and does the fencing that
// it asks for: ending the transactions of a dead instance and removing its member from the group.
//
// Fencing is safe against an instance that lives: it aborts and joins again. It is not free: every
// wrong fencing costs a rebalance. This package therefore collects evidence before it fences, and
// limits how often it does so.
//
// # Contract
//
// The runtime creates a [Peers] with [New], calls [Peers.Run], and reports changes:
// [Peers.SetMembers] for each new plan, [Peers.SetSelf] when the member id or the transactional ids
// of its own change. [Peers.Goodbye] announces an orderly stop. Config.Fence is called for one
// suspect at a time. A call that takes longer than two seconds, because markers cannot be written
// for example, holds up no other. The context ends after [FenceTimeout], when Run ends, and when
// the suspect turns out to be alive or restarted. Config.Fenced reports that a peer has fenced an
// instance. Config.Progress and Config.Live are for two members: they see and give signs of life at
// the brokers.
//
// Without a listener every method does nothing. A peer that cannot be reached is not an error: its
// death is noticed by the group's session timeout, and [Peers.Status] says why.
//
// # Who watches whom
//
// The instance names, sorted, form a ring. An instance watches its two successors and its two
// predecessors, or all others if the ring has at most five members. So every instance has at least
// two watchers if there are three instances, and A watches B exactly if B watches A. One connection
// serves both directions. An instance dials every instance that it watches and has no connection
// with, at the address from the last hello, else from the plan. After a restart the address in the
// plan can be stale: the new process dials its watchers and tells its address.
//
// An incarnation is a random number that a process draws at its start. It tells a restarted process
// from the one before.
//
// # Connections
//
// Both sides send a hello; the dialler begins. A hello is refused, with a reason that both sides
// log, if
//
//   - the application, the cluster or the major version differs, or only one side has a secret;
//   - another instance was dialled than the receiver, because an address is stale or leads to
//     several instances;
//   - it names the receiver's own instance, or the receiver is stopping;
//   - another incarnation of the same instance was heard within two heartbeats: then two processes
//     use one identity, and the second one has to wait for the end of the first;
//   - the instance is not in the plan, and there are connections with 64 others that are not. Those
//     without a connection are dropped first.
//
// Two instances may dial each other at the same time. Of two connections between the same
// incarnations the one that the smaller instance name dialled stays; if one side dialled both, the
// newer. Both sides know this, so they close the same one.
//
// # Security
//
// Config.Security is called for each connection; existing connections stay as they are when it
// changes. With Security.Server and Security.Client the connections are mutual TLS 1.3. With
// Security.Secret both sides prove that they know the secret. Each sends an HMAC-SHA-256 under the
// secret over its role and the hash of both hellos, which hold a random nonce of 32 bytes each. The
// dialler proves first. Only a refusal is accepted before the proof. Each direction then has a key
// of its own: an HMAC under the secret over a label and the same hash. Every later frame carries an
// HMAC under that key over a counter and the frame; the counter is not sent. So no frame can be
// changed, replayed, left out, reordered or reflected.
//
// Frames are not encrypted: an attacker who reads the network sees the names. An attacker who takes
// over an address can collect one proof and try secrets against it. So a secret has at least
// [SecretMin] bytes and should be random. TLS and a secret can be combined. With neither, both the
// listener and every remote address have to be loopback addresses.
//
// All instances that pass are trusted with the name that they tell. An unfinished handshake ends
// after the silence bound, and at most 64 are at work. Failures are counted, and logged once a
// minute for each kind.
//
// # Streams
//
// [Peers.Open] dials any instance of the plan, watched or not, for what the runtime has to say to
// it: queries and questions of consoles. The connection begins with hellos of the type stream, which are refused for the same
// reasons. It is protected in the same way: by TLS, or by a secret with a MAC on every frame. It
// carries bytes in both directions, and is no evidence of life. The other side gets it from the
// listener [Peers.Streams]. An older build refuses the type.
//
// With a secret alone, an attacker who reads the network sees the bytes of streams too.
//
// # Frames
//
//	length   4 bytes, of everything that follows; at most 64 KiB
//	major    1 byte, 1
//	minor    1 byte, told and never judged
//	type     1 byte
//	fields   each a tag and a length as uvarints and then so many bytes
//	mac      32 bytes, after the proofs of a connection with a secret
//	check    4 bytes, CRC-32C of everything before, the length included
//
// Every major version keeps the length, the major and the check. Numbers of fixed width are big
// endian; a list is one field for each element. A reader skips types and tags that it does not
// know. The CRC finds damage and bugs; only the mac stops an attacker.
//
//	hello      application, cluster, instance, incarnation, address, member id, transactional ids (the first 16 KiB), nonce, dialled instance
//	proof      the HMAC of a side
//	update     member id, transactional ids; further ones if they do not fit into a frame
//	heartbeat  nothing; sent every 200 ms
//	goodbye    code (stopping, duplicate, refused, silent), reason; the receiver closes the connection
//	question   instance, incarnation: the sender has lost it, does the receiver see it?
//	report     instance, incarnation, state, its age in milliseconds, who fences
//	stream     the hello of a stream: application, cluster, instance, incarnation, nonce, dialled instance
//	over       the id of a plan of the group: a member has done its part of it. A receiver that has the
//	           plan, and hears it for the first time, sends it to its peers
//	data       bytes of a stream, at most 32 KiB; only in streams with a secret
//
// A question about the receiver itself says that the sender does not hear it. Any other one is
// answered by a report. The states of a report are heard, lost, never, stopped (it said goodbye),
// restarted (another incarnation is connected), fencing and fenced. The last two are also sent
// unasked: fencing with every heartbeat while the sender has the turn, fenced when it has
// succeeded. In a large ring not all watchers of an instance are connected with each other, so an
// answer also tells of the fencing of a third instance.
//
// An instance that hears nothing of a peer says so with a goodbye before it closes the connection.
// The peer may still hear this side, and must not take a closed connection for a dead process.
//
// # A suspicion
//
//	connected --- closed without goodbye, or silent for the bound ---> asking
//	asking    --- all answers, or 500 ms ----------------------------> judged
//	judged    --- alive for another, cut off, or too weak -----------> asking, 1 s after the round began
//	judged    --- the evidence is enough ----------------------------> waiting for the turn and the limits
//	waiting   --- 1 s after the round began -------------------------> asking
//	waiting   --- turn and limits -----------------------------------> fencing
//	fencing   --- failed, or the suspect was found alive ------------> asking, after a pause
//	fencing   --- succeeded -----------------------------------------> over
//	any       --- hello of the same incarnation ---------------------> connected
//	any       --- hello of another incarnation, stopped, not in plan > dropped
//	any       --- fenced by a peer, restarted for it, given up ------> over
//
// A round of evidence dials the suspect, and asks every connected peer that watches it. It ends
// with all answers or after 500 ms, and is good for one second; then a new round begins. A host
// that has vanished does not answer the dial. So after a silence of the bound the dial is not
// waited for if a peer has lost the suspect too, or if there are two members only. After a closed
// connection, a dial that is closed as well is repeated within the round: the process is about to
// end, and the next dial is refused. A round is judged in this order:
//
//  1. A peer heard the incarnation within two heartbeats: the network between the two of us is at
//     fault. Stopped or restarted: over.
//  2. Two members only, and dialling was not refused: neither can know which of them is cut off.
//     The suspicion fails if this process does not reach the brokers, and does not fence a suspect
//     that makes progress there (Config.Progress). With more members, an instance that has heard
//     from no peer for the silence bound is the one that is cut off.
//  3. At least one peer has lost the suspect too, or has not heard it for two heartbeats: the
//     evidence is enough.
//  4. No peer has an opinion: a closed connection or a refused dial is enough. Silence is enough
//     after twice the bound. An instance that has lost all of several others needs a refused dial,
//     because a refusal shows that the network works.
//  5. Turn: watchers that have lost the suspect are ordered by their place in the ring behind it.
//     The first begins, each of the others one second after the one before. A peer that reports
//     that it is fencing has the turn for one second from its last report.
//  6. Limits: one fencing per second, ten per minute.
//
// This rule is for two members. In two cases a member shows the brokers that it lives (Config.Live)
// with every heartbeat. It has heard nothing of the other one for half the silence bound, or the
// other one has told it that it does not hear this member. From the same moment on the other member
// looks at the brokers. So it knows what they have seen when the silence reaches the bound, and
// tells an instance without traffic from one that is gone.
//
// A suspect that is at work is asked about again after 5 s. A fencing that fails is tried again
// after 1 s and then every 2 s, each time with fresh evidence. After eight failures it is given up.
// A hello of an incarnation after it was fenced means that it was fenced in vain. The third time
// within an hour the incarnation is left to the session timeout, with a warning.
//
// A process that was frozen must not fence its peers when it wakes up. If an event or a tick comes
// later than two heartbeats after the one before, the process had a gap: all silences begin again,
// and no suspicion is judged for two heartbeats. Time in which the monotonic clock stands still (a
// suspended machine, on Linux) is no gap, and no silence either.
//
// # Invariants
//
//   - An incarnation is fenced only if this instance was connected with it, lost it, and has no
//     connection with any incarnation of its instance.
//   - No fencing begins on evidence that is older than one second, or that a reachable watcher
//     contradicts.
//   - No fencing begins while this instance hears from no peer, unless there are two members.
//   - After a goodbye, or when a new incarnation has said hello, the old one is not fenced.
//   - Fencings of an instance keep the limits, whatever the network does.
//
// That a suspect is fenced by one peer only is no invariant: watchers that cannot reach each other
// both do it, which is safe.
//
// # Concurrency
//
// One mutex guards all state. It is never held over network I/O, a wait, or a call of Fence,
// Progress or Live. Goroutines: one for ticks, one that accepts, one that shows life, one for each
// fencing, each look at the brokers and each dial, two for each connection (reader and writer).
// There is one more for each stream that was accepted. Run owns them and returns when all have
// ended. Every method may be called from any goroutine, before, during and after Run.
//
// # Failure
//
// A damaged frame, a wrong mac or a full send queue closes the connection. It is evidence of a bad
// network and not of a dead process, so on this side it counts as silence. The peer sees a closed
// connection, and its dial finds this side alive. A listener that fails is tried again; without it,
// connections that others dial are missing.
//
// # What it is not
//
// It is no membership protocol and no consensus: the group's plan says who is a member, and Kafka
// decides what fencing means.
package peers
