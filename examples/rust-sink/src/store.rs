//! The SQLite file, and the one lock through which everything is written.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::fault::Result;
use crate::{catalog, kept, messages, streams};

/// SQLite has one writer at a time, and so have we: calls queue here, also behind one whose
/// caller has given up. A lock per stream would only queue in SQLite instead.
pub struct Store {
    db: Mutex<Connection>,
    path: PathBuf,
}

impl Store {
    /// Opens the file and makes what is missing of our own tables.
    pub fn open(path: &Path) -> rusqlite::Result<Self> {
        let db = Connection::open(path)?;
        db.busy_timeout(Duration::from_secs(5))?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        // OK means that it survives a kill of the machine: each commit is synced.
        db.pragma_update(None, "synchronous", "FULL")?;
        db.set_prepared_statement_cache_capacity(256);
        for table in [streams::TABLES, kept::TABLES, catalog::TABLES, messages::TABLES] {
            db.execute_batch(table)?;
        }
        let path = path.to_path_buf();
        Ok(Store { db: Mutex::new(db), path })
    }

    /// Does `work` in one transaction that holds SQLite's write lock from its first statement on:
    /// what it reads of the stream is still true when it writes. A fault rolls all of it back.
    pub fn write<T>(&self, work: impl FnOnce(&Transaction) -> Result<T>) -> Result<T> {
        self.within(TransactionBehavior::Immediate, work)
    }

    /// The same for a look: all that `work` sees is of one moment.
    pub fn read<T>(&self, work: impl FnOnce(&Transaction) -> Result<T>) -> Result<T> {
        self.within(TransactionBehavior::Deferred, work)
    }

    /// Where large transactions are put aside: next to the store, so that it is a disk that has
    /// room for them.
    pub fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        }
    }

    fn within<T>(
        &self,
        behavior: TransactionBehavior,
        work: impl FnOnce(&Transaction) -> Result<T>,
    ) -> Result<T> {
        // A handler that panicked was rolled back by its transaction's drop.
        let mut db = self.db.lock().unwrap_or_else(PoisonError::into_inner);
        let transaction = db.transaction_with_behavior(behavior)?;
        let answer = work(&transaction)?;
        transaction.commit()?;
        Ok(answer)
    }
}
