//! Logical messages, in the order of the stream.

use rusqlite::{Connection, params};

use crate::fault::Result;
use crate::number::Number;
use crate::proto::LogicalMessage;

/// Prefix and content are bytes of somebody's program, so no text.
pub const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS _replicant_messages (
        id INTEGER PRIMARY KEY,
        stream_id TEXT NOT NULL,
        commit_lsn TEXT NOT NULL,
        ordinal TEXT NOT NULL,
        lsn TEXT NOT NULL,
        transactional INTEGER NOT NULL,
        prefix BLOB NOT NULL,
        content BLOB NOT NULL
    ) STRICT;";

const KEEP: &str = "INSERT INTO _replicant_messages
    (stream_id, commit_lsn, ordinal, lsn, transactional, prefix, content)
    VALUES (?, ?, ?, ?, ?, ?, ?)";

/// Stores a message. `commit_lsn` and `ordinal` are its place: of one outside of transactions its
/// own LSN, and 0.
pub fn keep(
    db: &Connection,
    stream_id: &str,
    commit_lsn: u64,
    ordinal: u64,
    message: &LogicalMessage,
) -> Result<()> {
    db.prepare_cached(KEEP)?.execute(params![
        stream_id,
        Number(commit_lsn),
        Number(ordinal),
        Number(message.lsn),
        message.transactional,
        message.prefix,
        message.content,
    ])?;
    Ok(())
}
