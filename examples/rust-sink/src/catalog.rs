//! Which table and column here is which table and column there.
//!
//! Postgres tells `Item` from `item` and allows dots in names; SQLite does neither. So a table
//! is named `schema.table` here unless that is taken, and what it really is stands in a catalog.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, OptionalExtension, params};

use crate::fault::{Result, broken, refused};
use crate::names::{Names, quote};
use crate::proto::{Relation, ReplicaIdentity};
use crate::table::Table;

pub const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS _replicant_tables (
        id INTEGER PRIMARY KEY,
        schema_name TEXT NOT NULL,
        table_name TEXT NOT NULL,
        sql_name TEXT NOT NULL,
        key TEXT NOT NULL DEFAULT '',
        UNIQUE (schema_name, table_name)
    ) STRICT;
    CREATE TABLE IF NOT EXISTS _replicant_columns (
        table_id INTEGER NOT NULL,
        column_name TEXT NOT NULL,
        sql_name TEXT NOT NULL,
        PRIMARY KEY (table_id, column_name)
    ) STRICT;";

/// Columns of our own: a name for rows that have no key, and what a snapshot needs to know.
const OWN: [&str; 3] = [".id", ".copied", ".run"];

/// A table as the catalog has it.
struct Entry {
    id: i64,
    sql_name: String,
    /// The columns of its unique index, as they stand in a statement.
    key: String,
}

/// The table of a relation, made or widened to hold its rows. Each request brings its own
/// relation, and what an earlier one said is compared and not relied on.
pub fn table(db: &Connection, relation: &Relation) -> Result<Table> {
    let title = format!("{}.{}", relation.schema_name, relation.table_name);
    let entry = match find(db, relation)? {
        Some(entry) => entry,
        None => create(db, relation, &title)?,
    };
    let columns = columns(db, &entry, relation, &title)?;
    let key = key(relation, &title)?;
    let names: Vec<_> = key.iter().map(|&i| columns[i].as_str()).collect();
    index(db, &entry, &names.join(", "))?;
    Ok(Table { title, name: quote(&entry.sql_name), columns, key })
}

fn find(db: &Connection, relation: &Relation) -> Result<Option<Entry>> {
    let sql = "SELECT id, sql_name, key FROM _replicant_tables
        WHERE schema_name = ? AND table_name = ?";
    let entry = db
        .prepare_cached(sql)?
        .query_row([&relation.schema_name, &relation.table_name], |row| {
            Ok(Entry { id: row.get(0)?, sql_name: row.get(1)?, key: row.get(2)? })
        })
        .optional()?;
    Ok(entry)
}

/// Makes the table with our columns alone.
fn create(db: &Connection, relation: &Relation, title: &str) -> Result<Entry> {
    let mut statement = db.prepare("SELECT sql_name FROM _replicant_tables")?;
    let taken = statement.query_map([], |row| row.get::<_, String>(0))?;
    let sql_name = taken.collect::<rusqlite::Result<Names>>()?.take_like(title);
    db.execute(
        "INSERT INTO _replicant_tables (schema_name, table_name, sql_name) VALUES (?, ?, ?)",
        [&relation.schema_name, &relation.table_name, &sql_name],
    )?;
    let id = db.last_insert_rowid();
    let [number, copied, run] = OWN.map(quote);
    let name = quote(&sql_name);
    db.execute(
        &format!("CREATE TABLE {name} ({number} INTEGER PRIMARY KEY, {copied}, {run})"),
        [],
    )?;
    Ok(Entry { id, sql_name, key: String::new() })
}

/// The columns of the relation, in its order, as they stand in a statement. A new one is added;
/// one that is gone is the operator's to decide about.
///
/// They have no type: SQLite would make the number 1.1 of the text 1.10 in a column with one.
fn columns(
    db: &Connection,
    entry: &Entry,
    relation: &Relation,
    title: &str,
) -> Result<Vec<String>> {
    let sql = "SELECT column_name, sql_name FROM _replicant_columns WHERE table_id = ?";
    let mut statement = db.prepare_cached(sql)?;
    let known = statement.query_map([entry.id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut known = known.collect::<rusqlite::Result<HashMap<String, String>>>()?;
    let told: HashSet<_> = relation.columns.iter().map(|column| &column.name).collect();
    if told.len() != relation.columns.len() {
        return Err(broken(format!("{title}: two columns of one name")));
    }
    if known.keys().any(|name| !told.contains(name)) {
        return Err(refused("SCHEMA_DECLINED", format!("{title}: a column is gone")));
    }
    if known.len() < told.len() {
        widen(db, entry, relation, &mut known)?;
    }
    Ok(relation.columns.iter().map(|column| quote(&known[&column.name])).collect())
}

fn widen(
    db: &Connection,
    entry: &Entry,
    relation: &Relation,
    known: &mut HashMap<String, String>,
) -> Result<()> {
    let own = OWN.iter().map(|name| name.to_string());
    let mut taken: Names = known.values().cloned().chain(own).collect();
    let name = quote(&entry.sql_name);
    for column in &relation.columns {
        if !known.contains_key(&column.name) {
            let sql_name = taken.take_like(&column.name);
            db.execute(&format!("ALTER TABLE {name} ADD COLUMN {}", quote(&sql_name)), [])?;
            db.prepare_cached("INSERT INTO _replicant_columns VALUES (?, ?, ?)")?
                .execute(params![entry.id, column.name, sql_name])?;
            known.insert(column.name.clone(), sql_name);
        }
    }
    Ok(())
}

/// By which columns rows are found: those that an old row carries, so the replica identity. Where
/// that is the whole row or nothing, the primary key; without one there is no key.
fn key(relation: &Relation, title: &str) -> Result<Vec<usize>> {
    let whole = match ReplicaIdentity::try_from(relation.replica_identity) {
        Ok(ReplicaIdentity::Full | ReplicaIdentity::Nothing) => true,
        Ok(ReplicaIdentity::Default | ReplicaIdentity::Index) => false,
        _ => return Err(broken(format!("{title}: a replica identity that nobody knows"))),
    };
    let columns = relation.columns.iter().enumerate();
    let marked = columns.filter(|(_, column)| match whole {
        true => column.primary_key_position.is_some(),
        false => column.identity,
    });
    Ok(marked.map(|(i, _)| i).collect())
}

/// Keeps one unique index per table, on its key of now.
fn index(db: &Connection, entry: &Entry, key: &str) -> Result<()> {
    if entry.key == key {
        return Ok(());
    }
    let (index, name) = (format!("_replicant_key_{}", entry.id), quote(&entry.sql_name));
    db.execute(&format!("DROP INDEX IF EXISTS {index}"), [])?;
    if !key.is_empty() {
        db.execute(&format!("CREATE UNIQUE INDEX {index} ON {name} ({key})"), [])?;
    }
    db.execute("UPDATE _replicant_tables SET key = ? WHERE id = ?", params![key, entry.id])?;
    Ok(())
}
