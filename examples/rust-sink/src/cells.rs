//! A row of the wire, letter by letter.

use rusqlite::types::{Null, ToSql, ToSqlOutput};

use crate::fault::{Result, broken, unrepresentable};
use crate::proto::Row;

/// What a request says about one column of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// The text that Postgres prints.
    Value(&'a str),
    Null,
    /// Not in the log, since the update left it alone: keep what is stored.
    Unchanged,
    /// Not told at all. Neither NULL nor a condition.
    Absent,
}

impl Cell<'_> {
    /// Whether there is something to store.
    pub fn carried(&self) -> bool {
        matches!(self, Cell::Value(_) | Cell::Null)
    }
}

impl ToSql for Cell<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Cell::Value(text) => Ok((*text).into()),
            _ => Null.to_sql(),
        }
    }
}

/// Takes a row apart. `title` names the table in a refusal, which never quotes the row.
pub fn cells<'a>(row: &'a Row, width: usize, title: &str) -> Result<Vec<Cell<'a>>> {
    if row.kinds.len() != width || row.values.len() != width {
        return Err(broken(format!("{title}: kinds or values do not fit the relation")));
    }
    let cell = |(kind, value): (u8, &'a Vec<u8>)| match kind {
        b't' => match std::str::from_utf8(value) {
            Ok(text) => Ok(Cell::Value(text)),
            Err(_) => Err(unrepresentable(format!("{title}: a value is not UTF-8"))),
        },
        b'n' => Ok(Cell::Null),
        b'u' => Ok(Cell::Unchanged),
        b'a' => Ok(Cell::Absent),
        _ => Err(broken(format!("{title}: a letter that this sink does not know"))),
    };
    row.kinds.bytes().zip(&row.values).map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kinds: &str, values: &[&[u8]]) -> Row {
        let values = values.iter().map(|value| value.to_vec()).collect();
        Row { kinds: kinds.into(), values }
    }

    #[test]
    fn each_letter_is_something_else() {
        let row = row("tnuat", &[b"", b"", b"", b"", b"NULL"]);
        let (empty, null) = (Cell::Value(""), Cell::Value("NULL"));
        let expected = [empty, Cell::Null, Cell::Unchanged, Cell::Absent, null];
        assert_eq!(cells(&row, 5, "t").unwrap(), expected);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(cells(&row("t", &[b"x"]), 2, "t").is_err());
        assert!(cells(&row("tt", &[b"x"]), 2, "t").is_err());
        assert!(cells(&row("b", &[b"x"]), 1, "t").is_err());
        assert!(cells(&row("é", &[b"x", b"y"]), 2, "t").is_err());
        assert!(cells(&row("t", &[b"\xff"]), 1, "t").is_err());
    }
}
