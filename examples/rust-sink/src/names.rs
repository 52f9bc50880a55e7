//! Names of Postgres as names of SQLite.

use std::collections::HashSet;

/// An identifier for a statement, whatever is in it.
pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Names in use. SQLite holds `Item` and `item` for one, and keeps `sqlite_` for itself.
#[derive(Default)]
pub struct Names(HashSet<String>);

impl Names {
    pub fn take(&mut self, name: &str) {
        self.0.insert(name.to_ascii_lowercase());
    }

    /// Takes the wanted name, or one that looks like it.
    pub fn take_like(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_string();
        let mut n = 1;
        while !self.free(&name) {
            n += 1;
            name = format!("~{n}~{wanted}");
        }
        self.take(&name);
        name
    }

    fn free(&self, name: &str) -> bool {
        let folded = name.to_ascii_lowercase();
        !folded.starts_with("sqlite_") && !self.0.contains(&folded)
    }
}

impl FromIterator<String> for Names {
    fn from_iter<I: IntoIterator<Item = String>>(names: I) -> Self {
        let mut taken = Names::default();
        names.into_iter().for_each(|name| taken.take(&name));
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_sqlite_holds_for_one_are_told_apart() {
        let mut names = Names::default();
        let told = ["Item", "item", "ITEM", "sqlite_x", "é", "É"];
        let here: Vec<_> = told.iter().map(|name| names.take_like(name)).collect();
        assert_eq!(here, ["Item", "~2~item", "~3~ITEM", "~2~sqlite_x", "é", "É"]);
    }

    #[test]
    fn quotes_are_doubled() {
        assert_eq!(quote(r#"a"b.c"#), r#""a""b.c""#);
    }
}
