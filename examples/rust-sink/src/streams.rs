//! What is stored of a stream: its source, its epoch, its position.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::fault::{Result, broken, refused};
use crate::kept;
use crate::number::Number;
use crate::proto::{
    CheckpointClaim, CheckpointOwner, CheckpointRequest, CheckpointResponse, SourceIdentity,
    StreamContext,
};

pub const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS _replicant_streams (
        stream_id TEXT PRIMARY KEY,
        system_identifier TEXT NOT NULL,
        database TEXT NOT NULL,
        lineage BLOB NOT NULL,
        epoch TEXT NOT NULL,
        sender_id BLOB NOT NULL,
        position TEXT,
        generation INTEGER NOT NULL DEFAULT 0
    ) STRICT;";

const READ: &str = "SELECT system_identifier, database, lineage, epoch, sender_id, position,
    generation FROM _replicant_streams WHERE stream_id = ?";
const CLAIM: &str = "INSERT INTO _replicant_streams
    (stream_id, system_identifier, database, lineage, epoch, sender_id)
    VALUES (?, ?, ?, randomblob(16), ?, ?) ON CONFLICT (stream_id)
    DO UPDATE SET epoch = excluded.epoch, sender_id = excluded.sender_id";

/// The row of a stream.
pub struct Stream {
    system_identifier: String,
    database: String,
    lineage: Vec<u8>,
    epoch: u64,
    sender_id: Vec<u8>,
    /// Absent until a first one was stored.
    pub position: Option<u64>,
    /// The highest that a unit of a snapshot had.
    pub generation: i64,
}

impl Stream {
    fn read(row: &Row) -> rusqlite::Result<Self> {
        Ok(Stream {
            system_identifier: row.get(0)?,
            database: row.get(1)?,
            lineage: row.get(2)?,
            epoch: row.get::<_, Number>(3)?.0,
            sender_id: row.get(4)?,
            position: row.get::<_, Option<Number>>(5)?.map(|n| n.0),
            generation: row.get(6)?,
        })
    }
}

fn find(db: &Connection, stream_id: &str) -> Result<Option<Stream>> {
    let mut statement = db.prepare_cached(READ)?;
    Ok(statement.query_row([stream_id], Stream::read).optional()?)
}

/// The stream, if it is there. It belongs to one database of one system, for reads too.
pub fn bound(
    db: &Connection,
    stream_id: &str,
    source: &Option<SourceIdentity>,
) -> Result<Option<Stream>> {
    let source = source.as_ref().ok_or_else(|| broken("the source is missing"))?;
    let stream = find(db, stream_id)?;
    if let Some(stream) = &stream
        && (&stream.system_identifier, &stream.database)
            != (&source.system_identifier, &source.database)
    {
        return Err(refused("SOURCE_MISMATCH", "this stream belongs to another source"));
    }
    Ok(stream)
}

/// Answers how far the stream is. Nothing is created.
pub fn checkpoint(db: &Connection, request: &CheckpointRequest) -> Result<CheckpointResponse> {
    let Some(stream) = bound(db, &request.stream_id, &request.source)? else {
        return Ok(CheckpointResponse::default());
    };
    Ok(CheckpointResponse {
        position: stream.position,
        epoch: stream.epoch,
        lineage: stream.lineage,
        resume_state: kept::get(db, &request.stream_id, kept::RESUME_STATE)?,
    })
}

/// Takes the stream over. The number is the sidecar's: we store it or refuse it.
pub fn claim(db: &Connection, request: &CheckpointRequest, claim: &CheckpointClaim) -> Result<()> {
    let stream = bound(db, &request.stream_id, &request.source)?;
    let (epoch, sender) = match &stream {
        Some(stream) => (stream.epoch, &stream.sender_id[..]),
        None => (0, &[][..]),
    };
    if claim.epoch > epoch {
        let source = request.source.clone().unwrap_or_default();
        db.prepare_cached(CLAIM)?.execute(params![
            request.stream_id,
            source.system_identifier,
            source.database,
            Number(claim.epoch),
            claim.sender_id,
        ])?;
    } else if stream.is_none() || (claim.epoch, &claim.sender_id[..]) != (epoch, sender) {
        return Err(refused("FENCED", "another epoch rules"));
    }
    Ok(())
}

/// Lets a writing call in, or not: the first half of what every one of them does.
pub fn admit(db: &Connection, call: &StreamContext, expected: Option<u64>) -> Result<Stream> {
    match CheckpointOwner::try_from(call.checkpoint_owner) {
        Ok(CheckpointOwner::Sink) => {}
        _ => return Err(broken("this sink keeps the checkpoint, and the call does not say so")),
    }
    let behind = |why| refused("CHECKPOINT_BEHIND", why);
    let stream = find(db, &call.stream_id)?.ok_or_else(|| behind("nobody claimed this stream"))?;
    if call.epoch < stream.epoch {
        return Err(refused("FENCED", "another epoch rules"));
    }
    if call.epoch > stream.epoch {
        return Err(behind("this claim is not stored here"));
    }
    // An absent position is below every expectation, as None is below every Some.
    if expected.is_some() && expected > stream.position {
        return Err(behind("what lies between was never stored here"));
    }
    Ok(stream)
}

/// Moves the position to where the request says; `end` is where its last transaction ends.
pub fn advance(
    db: &Connection,
    call: &StreamContext,
    from: &Stream,
    end: u64,
    checkpoint_lsn: Option<u64>,
    resume_state: &Option<Vec<u8>>,
) -> Result<()> {
    let to = checkpoint_lsn.filter(|&lsn| lsn >= end.max(1));
    if to.is_none() {
        return Err(broken("checkpoint_lsn is missing, or below the transaction's end"));
    }
    if to > from.position {
        db.prepare_cached("UPDATE _replicant_streams SET position = ? WHERE stream_id = ?")?
            .execute(params![to.map(Number), call.stream_id])?;
        kept::put(db, &call.stream_id, kept::RESUME_STATE, resume_state)?;
    }
    Ok(())
}
