//! What the conformance suite does over the wire, done here without one: the rules that are
//! easiest to break, each as a few lines to read.

mod positions;
mod rows;

use rusqlite::Connection;

use crate::proto::*;
use crate::store::Store;
use crate::{fault, streams, units};

/// A store in a folder of its own, with a stream "s" that was claimed with epoch 1.
fn claimed() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("mirror.db")).unwrap();
    claim(&store, 1, b"first").unwrap();
    (folder, store)
}

fn claim(store: &Store, epoch: u64, sender: &[u8]) -> fault::Result<()> {
    let source = SourceIdentity { system_identifier: "1".into(), ..Default::default() };
    let request =
        CheckpointRequest { stream_id: "s".into(), source: Some(source), ..Default::default() };
    let claim = CheckpointClaim { epoch, sender_id: sender.into() };
    store.write(|db| streams::claim(db, &request, &claim))
}

fn context() -> Option<StreamContext> {
    Some(StreamContext {
        stream_id: "s".into(),
        checkpoint_owner: CheckpointOwner::Sink.into(),
        epoch: 1,
        ..Default::default()
    })
}

/// The table "t" with the columns k, the key, and v.
fn relation(identity: ReplicaIdentity) -> Relation {
    let keyed = identity == ReplicaIdentity::Default;
    let column =
        |name: &str, identity| Column { name: name.into(), identity, ..Default::default() };
    Relation {
        schema_name: "public".into(),
        table_name: "t".into(),
        replica_identity: identity.into(),
        columns: vec![column("k", keyed), column("v", false)],
        ..Default::default()
    }
}

/// A row from its letters and its values.
fn row(kinds: &str, values: [&str; 2]) -> Option<Row> {
    Some(Row { kinds: kinds.into(), values: values.map(|v| v.as_bytes().to_vec()).to_vec() })
}

fn insert(k: &str, v: &str) -> Change {
    Change { op: ChangeOp::Insert.into(), new_row: row("tt", [k, v]), ..Default::default() }
}

fn transaction(end_lsn: u64, changes: Vec<Change>) -> Transaction {
    Transaction { commit_lsn: end_lsn - 1, end_lsn, changes, ..Default::default() }
}

/// Delivers transactions on the table "t", the last of which is the position to store.
fn deliver(
    store: &Store,
    identity: ReplicaIdentity,
    transactions: Vec<Transaction>,
) -> fault::Result<Counts> {
    let request = HandleBatchRequest {
        context: context(),
        checkpoint_lsn: transactions.last().map(|last| last.end_lsn),
        relations: vec![relation(identity)],
        transactions,
        ..Default::default()
    };
    store.write(|db| units::batch(db, request)).map(|done| done.counts.unwrap())
}

/// The rows of the table "t", sorted.
fn rows(store: &Store) -> Vec<(String, Option<String>)> {
    let read = |db: &Connection| -> rusqlite::Result<Vec<_>> {
        let mut statement = db.prepare(r#"SELECT k, v FROM "public.t" ORDER BY k, v"#)?;
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    };
    store.read(|db| Ok(read(db)?)).unwrap()
}

fn position(store: &Store) -> Option<u64> {
    let stream = store.read(|db| streams::admit(db, &context().unwrap(), None));
    stream.unwrap().position
}
