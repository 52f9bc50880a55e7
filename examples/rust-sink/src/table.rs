//! One table of the mirror, and what can happen to its rows.

use rusqlite::types::ToSql;
use rusqlite::{Connection, params_from_iter};

use crate::cells::Cell;
use crate::fault::{Result, broken};

/// A table in the shape of one relation. Names are quoted.
pub struct Table {
    /// What refusals call it.
    pub title: String,
    pub name: String,
    /// In the order of the relation, as rows are.
    pub columns: Vec<String>,
    /// Places of the key's columns. Empty: rows are found by all of their values.
    pub key: Vec<usize>,
}

/// Who wrote a row last, a snapshot or the stream, and in the time of which run.
#[derive(Clone, Copy)]
pub struct Origin {
    pub copied: bool,
    pub run: i64,
}

/// A condition for one row, and the values of its marks.
type Place<'a> = (String, Vec<&'a dyn ToSql>);

impl Table {
    /// Stores what a row carries, in the row at its key or as a new one. A copied row over one of
    /// the stream leaves that one the stream's.
    pub fn put(&self, db: &Connection, cells: &[Cell], origin: Origin) -> Result<()> {
        let (mut names, mut values) = self.carried(cells);
        let mut set: Vec<_> =
            names.iter().map(|name| format!("{name} = excluded.{name}")).collect();
        set.push(r#"".copied" = min(".copied", excluded.".copied")"#.into());
        set.push(r#"".run" = excluded.".run""#.into());
        names.extend([r#"".copied""#, r#"".run""#]);
        values.extend([&origin.copied as &dyn ToSql, &origin.run]);
        let (name, marks) = (&self.name, vec!["?"; names.len()].join(", "));
        let mut sql = format!("INSERT INTO {name} ({}) VALUES ({marks})", names.join(", "));
        if !self.key.is_empty() {
            let (key, _) = self.key_of(cells)?;
            sql += &format!(" ON CONFLICT ({key}) DO UPDATE SET {}", set.join(", "));
        }
        db.prepare_cached(&sql)?.execute(params_from_iter(values))?;
        Ok(())
    }

    /// Changes the row at the place of `old`, its key included: the row that stood at a new key
    /// gives way. Says whether there was such a row.
    pub fn change(
        &self,
        db: &Connection,
        old: &[Cell],
        new: &[Cell],
        origin: Origin,
    ) -> Result<bool> {
        let (names, mut values) = self.carried(new);
        let mut set: Vec<_> = names.iter().map(|name| format!("{name} = ?")).collect();
        set.extend([r#"".copied" = ?"#.into(), r#"".run" = ?"#.into()]);
        values.extend([&origin.copied as &dyn ToSql, &origin.run]);
        let (place, of_place) = self.place(old)?;
        values.extend(of_place);
        let sql = format!("UPDATE OR REPLACE {} SET {} WHERE {place}", self.name, set.join(", "));
        Ok(db.prepare_cached(&sql)?.execute(params_from_iter(values))? > 0)
    }

    /// Removes the row at the place of `old`. Says whether there was one.
    pub fn remove(&self, db: &Connection, old: &[Cell]) -> Result<bool> {
        let (place, values) = self.place(old)?;
        let sql = format!("DELETE FROM {} WHERE {place}", self.name);
        Ok(db.prepare_cached(&sql)?.execute(params_from_iter(values))? > 0)
    }

    /// Removes every row, and says how many there were.
    pub fn clear(&self, db: &Connection) -> Result<usize> {
        Ok(db.execute(&format!("DELETE FROM {}", self.name), [])?)
    }

    /// Removes the rows of copies that no change has touched since.
    pub fn clear_copied(&self, db: &Connection) -> Result<usize> {
        Ok(db.execute(&format!(r#"DELETE FROM {} WHERE ".copied""#, self.name), [])?)
    }

    /// Removes the rows that neither this run nor a change in its time has touched.
    pub fn sweep(&self, db: &Connection, run: i64) -> Result<usize> {
        Ok(db.execute(&format!(r#"DELETE FROM {} WHERE ".run" < ?"#, self.name), [run])?)
    }

    /// What a row says of its table's columns: names and values.
    fn carried<'a>(&'a self, cells: &'a [Cell]) -> (Vec<&'a str>, Vec<&'a dyn ToSql>) {
        let all = self.columns.iter().zip(cells);
        let carried = all.filter(|(_, cell)| cell.carried());
        carried.map(|(name, cell)| (name.as_str(), cell as &dyn ToSql)).unzip()
    }

    /// The key's columns as they stand in a statement, and their values in this row.
    fn key_of<'a>(&self, cells: &'a [Cell]) -> Result<Place<'a>> {
        let values: Vec<_> = self.key.iter().map(|&i| &cells[i]).collect();
        if values.iter().any(|cell| !matches!(cell, Cell::Value(_))) {
            return Err(broken(format!("{}: a column of the key has no value", self.title)));
        }
        let names: Vec<_> = self.key.iter().map(|&i| self.columns[i].as_str()).collect();
        Ok((names.join(", "), values.into_iter().map(|cell| cell as &dyn ToSql).collect()))
    }

    /// Where a row is. Without a key it is one of those that equal it: equal rows are several
    /// rows, and a change is of one. Rows are compared as wholes since SQLite allows no condition
    /// as deep as a table can be wide.
    fn place<'a>(&'a self, cells: &'a [Cell]) -> Result<Place<'a>> {
        if !self.key.is_empty() {
            let (names, values) = self.key_of(cells)?;
            let marks = vec!["?"; values.len()].join(", ");
            return Ok((format!("({names}) = ({marks})"), values));
        }
        let (names, values) = self.carried(cells);
        let equal = match names.len() {
            0 => "TRUE".to_string(),
            n => format!("({}) IS ({})", names.join(", "), vec!["?"; n].join(", ")),
        };
        let one = format!(r#"SELECT ".id" FROM {} WHERE {equal} LIMIT 1"#, self.name);
        Ok((format!(r#"".id" = ({one})"#), values))
    }
}
