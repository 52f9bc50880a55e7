//! Rows that were there before the stream began.

use rusqlite::{Connection, params};

use crate::cells::{Cell, cells};
use crate::fault::{Result, broken};
use crate::kept::{self, PROGRESS_TOKEN};
use crate::mirror::{count, none};
use crate::proto::{
    Counts, HandleSnapshotCompleteRequest, HandleSnapshotCompleteResponse, HandleSnapshotRequest,
    HandleSnapshotResponse, Relation, SnapshotProgressRequest, SnapshotProgressResponse,
    SnapshotReset, SnapshotUnit,
};
use crate::table::{Origin, Table};
use crate::units::context;
use crate::{catalog, streams};

/// One unit: what it clears, its rows, what it sweeps, its token. No position moves.
pub fn unit(db: &Connection, request: HandleSnapshotRequest) -> Result<HandleSnapshotResponse> {
    let call = context(&request.context)?;
    let unit = request.unit.ok_or_else(|| broken("the unit is missing"))?;
    let run = i64::try_from(unit.generation);
    let run = run.map_err(|_| broken("a generation that no number of runs leads to"))?;
    let stream = streams::admit(db, call, request.expected_checkpoint)?;
    let mut counts = none();
    match &unit.relation {
        Some(relation) => rows(db, relation, &unit, run, &mut counts)?,
        None if unit.rows.is_empty() => {}
        None => return Err(broken("rows without a relation")),
    }
    // What the stream touches from here on is of this run: its sweep must leave it alone.
    if run > stream.generation {
        db.prepare_cached("UPDATE _replicant_streams SET generation = ? WHERE stream_id = ?")?
            .execute(params![run, call.stream_id])?;
    }
    kept::put(db, &call.stream_id, PROGRESS_TOKEN, &unit.progress_token)?;
    Ok(HandleSnapshotResponse { counts: Some(counts) })
}

fn rows(
    db: &Connection,
    relation: &Relation,
    unit: &SnapshotUnit,
    run: i64,
    counts: &mut Counts,
) -> Result<()> {
    let table = catalog::table(db, relation)?;
    if unit.first_for_table {
        let cleared = reset(db, &table, unit.reset)?;
        count(&mut counts.deleted, cleared as u64);
    }
    let origin = Origin { copied: true, run };
    for row in &unit.rows {
        let cells = cells(row, table.columns.len(), &table.title)?;
        if cells.contains(&Cell::Unchanged) {
            return Err(broken(format!("{}: a copied row is not whole", table.title)));
        }
        table.put(db, &cells, origin)?;
        count(&mut counts.inserted, 1);
    }
    if unit.last_for_table && unit.sweep {
        let swept = table.sweep(db, run)?;
        count(&mut counts.deleted, swept as u64);
    }
    Ok(())
}

fn reset(db: &Connection, table: &Table, reset: i32) -> Result<usize> {
    match SnapshotReset::try_from(reset) {
        Ok(SnapshotReset::SnapshotRows) => table.clear_copied(db),
        Ok(SnapshotReset::All) => table.clear(db),
        _ => Err(broken(format!("{}: a reset that this sink does not know", table.title))),
    }
}

/// The end of an initial snapshot: the stream has its first position.
pub fn complete(
    db: &Connection,
    request: HandleSnapshotCompleteRequest,
) -> Result<HandleSnapshotCompleteResponse> {
    let call = context(&request.context)?;
    if request.completion.is_none() {
        return Err(broken("the completion is missing"));
    }
    let stream = streams::admit(db, call, request.expected_checkpoint)?;
    let lsn = request.checkpoint_lsn;
    streams::advance(db, call, &stream, 0, lsn, &request.resume_state)?;
    Ok(HandleSnapshotCompleteResponse { checkpoint_lsn: lsn, counts: Some(none()) })
}

/// How far an incremental snapshot is: the last token, bit by bit.
pub fn progress(
    db: &Connection,
    request: &SnapshotProgressRequest,
) -> Result<SnapshotProgressResponse> {
    streams::bound(db, &request.stream_id, &request.source)?;
    let progress_token = kept::get(db, &request.stream_id, PROGRESS_TOKEN)?;
    Ok(SnapshotProgressResponse { progress_token })
}
