//! Prints what a mirror holds, as JSON lines, for the conformance suite: it reads the file itself,
//! also while the sink is stopped.
//!
//!     rust-sink-probe FILE read SCHEMA TABLE
//!     rust-sink-probe FILE log STREAM

use std::error::Error;
use std::{env, io, io::Write};

use base64::{Engine, engine::general_purpose::STANDARD};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<_> = env::args().skip(1).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    // Not read-only: the file of a sink that was killed may need its log read first.
    let open = |path| Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE);
    match words[..] {
        [file, "read", schema, table] => read(&open(file)?, schema, table),
        [file, "log", stream] => log(&open(file)?, stream),
        [_, "reset", _] => Ok(()),
        _ => {
            Err("usage: rust-sink-probe FILE read SCHEMA TABLE | log STREAM | reset SCHEMA".into())
        }
    }
}

/// One line with the columns, then one for each row.
fn read(db: &Connection, schema: &str, table: &str) -> Result<(), Box<dyn Error>> {
    let sql = "SELECT id, sql_name FROM _replicant_tables WHERE schema_name = ? AND table_name = ?";
    let found: Option<(i64, String)> =
        db.query_row(sql, [schema, table], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let mut out = io::stdout().lock();
    let Some((id, name)) = found else {
        writeln!(out, "{}", json!({"missing": true}))?;
        return Ok(());
    };
    let sql = "SELECT column_name, sql_name FROM _replicant_columns WHERE table_id = ?";
    let mut columns = db.prepare(sql)?;
    let columns = columns.query_map(params![id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (names, here): (Vec<String>, Vec<String>) =
        columns.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().unzip();
    writeln!(out, "{}", json!({"columns": names}))?;
    let quote = |name: &String| format!("\"{}\"", name.replace('"', "\"\""));
    let mut list: Vec<_> = here.iter().map(quote).collect();
    list.push("1".into());
    let sql = format!("SELECT {} FROM {}", list.join(", "), quote(&name));
    let mut statement = db.prepare(&sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let cells = (0..names.len()).map(|i| Ok(cell(row.get_ref(i)?)));
        let cells = cells.collect::<rusqlite::Result<Vec<_>>>()?;
        writeln!(out, "{}", json!({"row": cells}))?;
    }
    Ok(())
}

fn cell(value: ValueRef) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => STANDARD.encode(bytes).into(),
        // The mirror stores texts alone, so that anything else shows as what it is.
        other => format!("{other:?}").into(),
    }
}

/// The messages of a stream, a line each: a mirror has no other log.
fn log(db: &Connection, stream: &str) -> Result<(), Box<dyn Error>> {
    let sql = "SELECT commit_lsn, ordinal, lsn, transactional, prefix, content
        FROM _replicant_messages WHERE stream_id = ? ORDER BY id";
    let mut statement = db.prepare(sql)?;
    let mut rows = statement.query([stream])?;
    let mut out = io::stdout().lock();
    while let Some(row) = rows.next()? {
        let text = |i| row.get::<_, String>(i);
        let bytes = |i| Ok::<_, rusqlite::Error>(STANDARD.encode(row.get::<_, Vec<u8>>(i)?));
        let entry = json!({
            "commit_lsn": text(0)?,
            "ordinal": text(1)?,
            "op": "LOG_OP_MESSAGE",
            "message": {
                "lsn": text(2)?,
                "transactional": row.get::<_, bool>(3)?,
                "prefix": bytes(4)?,
                "content": bytes(5)?,
            },
        });
        writeln!(out, "{}", json!({"entry": entry}))?;
    }
    Ok(())
}
