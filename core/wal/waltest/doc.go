// Package waltest is a scripted walsender over an in-memory connection, for tests that
// need a stream to misbehave or time to stand still. The real client code talks to it:
// startup, IDENTIFY_SYSTEM, catalog queries, slot creation, START_REPLICATION. What
// comes after that is the test's: frames, errors, silence. It records every status
// update it is sent.
//
// It imitates the protocol, not the database; what Postgres does is tested with Postgres.
package waltest
