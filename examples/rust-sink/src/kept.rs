//! Bytes of the sidecar's that are stored with a stream and given back, bit by bit.

use rusqlite::{Connection, OptionalExtension, params};

use crate::fault::Result;

/// Each unit rewrites the row of its stream, and these bytes may be a megabyte and change seldom:
/// so they have a table of their own.
pub const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS _replicant_kept (
        stream_id TEXT NOT NULL,
        what TEXT NOT NULL,
        bytes BLOB NOT NULL,
        PRIMARY KEY (stream_id, what)
    ) STRICT;";

pub const RESUME_STATE: &str = "resume_state";
pub const PROGRESS_TOKEN: &str = "progress_token";

/// Stores bytes. Absent leaves what is there; no bytes at all are bytes too.
pub fn put(db: &Connection, stream_id: &str, what: &str, bytes: &Option<Vec<u8>>) -> Result<()> {
    if let Some(bytes) = bytes {
        db.prepare_cached("REPLACE INTO _replicant_kept VALUES (?, ?, ?)")?
            .execute(params![stream_id, what, bytes])?;
    }
    Ok(())
}

/// Gives them back. Absent means that there never were any; what cannot be read is a fault.
pub fn get(db: &Connection, stream_id: &str, what: &str) -> Result<Option<Vec<u8>>> {
    let sql = "SELECT bytes FROM _replicant_kept WHERE stream_id = ? AND what = ?";
    let mut statement = db.prepare_cached(sql)?;
    Ok(statement.query_row([stream_id, what], |row| row.get(0)).optional()?)
}
