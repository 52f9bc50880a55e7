// Package core holds the nouns of Replicant Sidecar and the door to a sink: LSN,
// Relation, Tuple, Change, Transaction, Unit, Sink, Capabilities, Halt. It imports the
// standard library alone, so that a sink author pulls in no driver, and every other
// package points at it.
//
// # Invariants
//
// They are kept by core/checkpoint and core/pipeline and hold in every run:
//
//	I1  confirmed <= durable: Postgres is told no position the sink has not stored.
//	I2  durable <= delivered <= received.
//	I3  Neither received nor durable ever falls within a session. Delivered falls back
//	    to durable only when the sink has certainly not done a unit (too large).
//	I4  Transactions reach the sink in end-LSN order, whole, once a session.
//	I5  Within a session a unit is sent again only unchanged, or halved as too large;
//	    a new session regroups freely. Transaction borders never move.
//	I6  Nothing is sent that the sink did not advertise.
//	I7  Every row names a relation that was described before it.
//	I8  After a halt nothing moves.
//	I9  Memory stays under the named limits.
//
// # Positions
//
// There is one quantity: the end LSN. Position E means that everything that ends at or
// before E is done. A sink skips a transaction whose EndLSN is at or below its
// position. CommitLSN, the start of the commit record, is identity and is compared
// with nothing: it can equal the end of the transaction before it.
package core
