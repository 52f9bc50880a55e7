//! A u64 in SQLite.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

/// Positions and epochs use all 64 bits and SQLite's integers have a sign, so that they are
/// stored as decimal text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Number(pub u64);

impl ToSql for Number {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.to_string().into())
    }
}

/// What is no number is an error, and never a 0 or an absence.
impl FromSql for Number {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let digits = value.as_str()?;
        digits.parse().map(Number).map_err(FromSqlError::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    #[test]
    fn keeps_all_64_bits() {
        let db = Connection::open_in_memory().unwrap();
        for n in [0, (1 << 53) + 1, (1 << 63) + 5, u64::MAX] {
            let back: Number = db.query_row("SELECT ?", [Number(n)], |row| row.get(0)).unwrap();
            assert_eq!(back, Number(n));
        }
    }

    #[test]
    fn does_not_make_a_number_of_rubbish() {
        let db = Connection::open_in_memory().unwrap();
        for rubbish in ["''", "'x'", "'-1'", "1", "x'31'"] {
            let sql = format!("SELECT {rubbish}");
            assert!(db.query_row(&sql, [], |row| row.get::<_, Number>(0)).is_err(), "{rubbish}");
        }
    }
}
