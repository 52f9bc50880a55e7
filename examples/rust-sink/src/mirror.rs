//! The changes of transactions, one by one, in their order.

use std::collections::HashMap;
use std::rc::Rc;

use rusqlite::Connection;

use crate::cells::{Cell, cells};
use crate::fault::{Result, broken};
use crate::proto::{Change, ChangeOp, Counts, OldRowKind, Relation, Row};
use crate::table::{Origin, Table};
use crate::{catalog, messages};

/// Applies the changes of one unit, inside its store transaction.
pub struct Mirror<'a> {
    db: &'a Connection,
    stream_id: &'a str,
    origin: Origin,
    relations: Vec<Relation>,
    tables: HashMap<u32, Rc<Table>>,
    pub counts: Counts,
}

impl<'a> Mirror<'a> {
    /// `run` is the highest generation of a snapshot that this stream has seen.
    pub fn new(db: &'a Connection, stream_id: &'a str, run: i64, relations: Vec<Relation>) -> Self {
        let origin = Origin { copied: false, run };
        Mirror { db, stream_id, origin, relations, tables: HashMap::new(), counts: none() }
    }

    /// A relation frame of a large transaction.
    pub fn add(&mut self, relation: Relation) {
        self.relations.push(relation);
    }

    /// Applies changes of the transaction `commit_lsn`, of which `first` came before.
    pub fn apply(&mut self, commit_lsn: u64, first: u64, changes: &[Change]) -> Result<()> {
        for (ordinal, change) in (first..).zip(changes) {
            match ChangeOp::try_from(change.op) {
                Ok(ChangeOp::Insert) => self.insert(change)?,
                Ok(ChangeOp::Update) => self.update(change)?,
                Ok(ChangeOp::Delete) => self.delete(change)?,
                Ok(ChangeOp::Truncate) => self.truncate(change)?,
                Ok(ChangeOp::Message) => {
                    let message = change.message.as_ref();
                    let message = message.ok_or_else(|| broken("a message is missing"))?;
                    messages::keep(self.db, self.stream_id, commit_lsn, ordinal, message)?;
                }
                _ => return Err(broken("a change that this sink does not know")),
            }
        }
        Ok(())
    }

    fn insert(&mut self, change: &Change) -> Result<()> {
        let table = self.table(change.relation_index)?;
        table.put(self.db, &image(&table, &change.new_row)?, self.origin)?;
        count(&mut self.counts.inserted, 1);
        Ok(())
    }

    fn update(&mut self, change: &Change) -> Result<()> {
        let table = self.table(change.relation_index)?;
        let mut new = image(&table, &change.new_row)?;
        let old = old(&table, change)?;
        if let Some(old) = &old {
            // A key may be too large for the log itself: then the old row has it.
            for &i in table.key.iter().filter(|&&i| old[i].carried()) {
                if new[i] == Cell::Unchanged {
                    new[i] = old[i];
                }
            }
        } else if table.key.is_empty() {
            return Err(broken(format!("{}: the old row is missing", table.title)));
        }
        if table.change(self.db, old.as_ref().unwrap_or(&new), &new, self.origin)? {
            count(&mut self.counts.updated, 1);
        } else {
            // We never had it, or a snapshot will bring it: what is carried is what we know.
            table.put(self.db, &new, self.origin)?;
            count(&mut self.counts.inserted, 1);
        }
        Ok(())
    }

    fn delete(&mut self, change: &Change) -> Result<()> {
        let table = self.table(change.relation_index)?;
        let old = old(&table, change)?;
        let old = old.ok_or_else(|| broken(format!("{}: the old row is missing", table.title)))?;
        let removed = table.remove(self.db, &old)?;
        count(&mut self.counts.deleted, removed.into());
        Ok(())
    }

    fn truncate(&mut self, change: &Change) -> Result<()> {
        let truncate = change.truncate.as_ref();
        let truncate = truncate.ok_or_else(|| broken("the tables of a truncate are missing"))?;
        for &index in &truncate.relation_indexes {
            self.table(index)?.clear(self.db)?;
            count(&mut self.counts.truncated, 1);
        }
        Ok(())
    }

    /// The table of a relation of this request. It is looked up when a change needs it and not
    /// before: a transaction that is skipped may be of a shape that is long gone.
    fn table(&mut self, index: u32) -> Result<Rc<Table>> {
        if let Some(table) = self.tables.get(&index) {
            return Ok(table.clone());
        }
        let relation = self.relations.get(index as usize);
        let relation = relation.ok_or_else(|| broken("relation_index is out of range"))?;
        let table = Rc::new(catalog::table(self.db, relation)?);
        self.tables.insert(index, table.clone());
        Ok(table)
    }
}

/// A row that the change must have.
fn image<'r>(table: &Table, row: &'r Option<Row>) -> Result<Vec<Cell<'r>>> {
    let row = row.as_ref();
    let row = row.ok_or_else(|| broken(format!("{}: a row is missing", table.title)))?;
    cells(row, table.columns.len(), &table.title)
}

/// The old row, if the change says that it has one.
fn old<'r>(table: &Table, change: &'r Change) -> Result<Option<Vec<Cell<'r>>>> {
    match OldRowKind::try_from(change.old_row_kind) {
        Ok(OldRowKind::None) => Ok(None),
        Ok(OldRowKind::Key | OldRowKind::Full) => image(table, &change.old_row).map(Some),
        Err(_) => Err(broken(format!("{}: an old row of an unknown kind", table.title))),
    }
}

/// Counts that say 0 instead of nothing.
pub fn none() -> Counts {
    Counts {
        inserted: Some(0),
        updated: Some(0),
        deleted: Some(0),
        truncated: Some(0),
        replayed_transactions: Some(0),
    }
}

/// Adds to a count.
pub fn count(counter: &mut Option<u64>, n: u64) {
    *counter = Some(counter.unwrap_or(0) + n);
}
