//! What changes do to rows.

use super::*;

fn update(kinds: &str, values: [&str; 2]) -> Change {
    Change { op: ChangeOp::Update.into(), new_row: row(kinds, values), ..Default::default() }
}

/// The same with the old row's key.
fn of_key(old: &str, change: Change) -> Change {
    let old_row_kind = OldRowKind::Key.into();
    Change { old_row: row("ta", [old, ""]), old_row_kind, ..change }
}

/// The rows after these changes, in one transaction.
fn after(identity: ReplicaIdentity, changes: Vec<Change>) -> Vec<(String, String)> {
    let (_folder, store) = claimed();
    deliver(&store, identity, vec![transaction(10, changes)]).unwrap();
    rows(&store).into_iter().map(|(k, v)| (k, v.unwrap_or_else(|| "NULL".into()))).collect()
}

fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
    pairs.map(|(k, v)| (k.into(), v.into())).to_vec()
}

#[test]
fn what_is_unchanged_stays() {
    let changes = vec![insert("1", "large"), update("tu", ["1", ""])];
    assert_eq!(after(ReplicaIdentity::Default, changes), pairs([("1", "large")]));
}

#[test]
fn a_row_takes_what_is_unchanged_along_to_its_new_key() {
    let moved = of_key("1", update("tu", ["2", ""]));
    let changes = vec![insert("1", "mine"), insert("2", "not mine"), moved];
    assert_eq!(after(ReplicaIdentity::Default, changes), pairs([("2", "mine")]));
}

#[test]
fn an_update_of_a_row_that_is_not_there_stores_what_it_carries() {
    let changes = vec![update("tt", ["1", "a"]), update("tu", ["2", ""])];
    assert_eq!(after(ReplicaIdentity::Default, changes), pairs([("1", "a"), ("2", "NULL")]));
}

#[test]
fn of_equal_rows_without_a_key_one_is_changed() {
    let old_row_kind = OldRowKind::Full.into();
    let full = |change| Change { old_row: row("tt", ["1", "a"]), old_row_kind, ..change };
    let delete = Change { op: ChangeOp::Delete.into(), ..Default::default() };
    let three = || vec![insert("1", "a"); 3];
    let mut changes = three();
    changes.extend([full(update("tt", ["1", "b"])), full(delete)]);
    assert_eq!(after(ReplicaIdentity::Full, changes), pairs([("1", "a"), ("1", "b")]));
}

#[test]
fn texts_are_kept_as_they_are() {
    let changes = vec![insert("1", "1.10"), insert("2", ""), insert("3", "NULL")];
    let expected = pairs([("1", "1.10"), ("2", ""), ("3", "NULL")]);
    assert_eq!(after(ReplicaIdentity::Default, changes), expected);
}

#[test]
fn a_column_that_is_gone_is_refused_and_a_new_one_is_added() {
    let (_folder, store) = claimed();
    let shape = |columns: &[&str]| {
        let mut relation = relation(ReplicaIdentity::Default);
        relation.columns.retain(|column| columns.contains(&column.name.as_str()));
        store.write(|db| crate::catalog::table(db, &relation)).map(|table| table.columns)
    };
    assert_eq!(shape(&["k"]).unwrap(), [r#""k""#]);
    assert_eq!(shape(&["k", "v"]).unwrap(), [r#""k""#, r#""v""#]);
    assert!(format!("{:?}", shape(&["k"]).err()).contains("SCHEMA_DECLINED"));
}
