//! Epochs, positions, and what a repeat does.

use super::*;
use crate::large;
use crate::proto::handle_large_transaction_request::Frame;

const KEYED: ReplicaIdentity = ReplicaIdentity::Default;

#[test]
fn a_repeat_changes_nothing_and_what_is_new_of_it_is_applied() {
    let (_folder, store) = claimed();
    let (one, two) =
        (transaction(10, vec![insert("1", "a")]), transaction(20, vec![insert("2", "b")]));
    deliver(&store, KEYED, vec![one.clone()]).unwrap();
    let counts = deliver(&store, KEYED, vec![one, two]).unwrap();
    assert_eq!((counts.inserted, counts.replayed_transactions), (Some(1), Some(1)));
    assert_eq!(position(&store), Some(20));
    assert_eq!(rows(&store).len(), 2);
}

#[test]
fn a_transaction_whose_commit_record_starts_at_the_position_is_new() {
    let (_folder, store) = claimed();
    deliver(&store, KEYED, vec![transaction(10, vec![])]).unwrap();
    let next = Transaction { commit_lsn: 10, ..transaction(11, vec![insert("1", "a")]) };
    deliver(&store, KEYED, vec![next]).unwrap();
    assert_eq!(rows(&store).len(), 1);
}

#[test]
fn a_gap_is_refused_and_so_is_an_expectation_where_nothing_is_stored() {
    let (_folder, store) = claimed();
    let admit = |expected| store.read(|db| streams::admit(db, &context().unwrap(), expected));
    assert!(admit(Some(1)).is_err());
    deliver(&store, KEYED, vec![transaction(10, vec![])]).unwrap();
    assert!(admit(Some(11)).is_err());
    assert!(admit(Some(10)).is_ok() && admit(Some(5)).is_ok() && admit(None).is_ok());
}

#[test]
fn the_number_of_a_claim_is_the_sidecars() {
    let (_folder, store) = claimed();
    assert!(claim(&store, 1, b"first").is_ok(), "an answer was lost");
    assert!(claim(&store, 1, b"other").is_err());
    assert!(claim(&store, 7, b"other").is_ok());
    assert!(claim(&store, 6, b"first").is_err());
    let late = deliver(&store, KEYED, vec![transaction(10, vec![])]);
    assert!(format!("{:?}", late.unwrap_err()).contains("FENCED"));
}

#[test]
fn a_unit_that_breaks_off_leaves_nothing() {
    let (_folder, store) = claimed();
    deliver(&store, KEYED, vec![transaction(10, vec![insert("1", "a")])]).unwrap();
    let unset = Change::default();
    let broken = transaction(20, vec![insert("2", "b"), unset]);
    assert!(deliver(&store, KEYED, vec![broken]).is_err());
    assert_eq!((position(&store), rows(&store).len()), (Some(10), 1));
}

#[test]
fn frames_without_a_commit_or_out_of_order_never_happened() {
    let begin = || Frame::Begin(LargeBegin { context: context(), ..Default::default() });
    let relation = || Frame::Relation(relation(KEYED));
    let changes = |first_change_index| {
        Frame::Changes(LargeChanges { first_change_index, changes: vec![insert("1", "a")] })
    };
    let commit = |change_count| {
        let (end_lsn, checkpoint_lsn) = (30, Some(30));
        Frame::Commit(LargeCommit { end_lsn, checkpoint_lsn, change_count, resume_state: None })
    };
    let (_folder, store) = claimed();
    let send = |frames: Vec<Frame>| {
        let frames =
            frames.into_iter().map(|frame| HandleLargeTransactionRequest { frame: Some(frame) });
        let mut frames = frames.collect::<Vec<_>>().into_iter();
        large::handle(&store, || Ok(frames.next()))
    };
    assert!(send(vec![]).is_err());
    assert!(send(vec![relation(), begin()]).is_err());
    assert!(send(vec![begin(), begin()]).is_err());
    assert!(send(vec![begin(), relation(), changes(0)]).is_err());
    assert!(send(vec![begin(), relation(), changes(1), commit(1)]).is_err());
    assert!(send(vec![begin(), relation(), changes(0), commit(2)]).is_err());
    assert!(send(vec![begin(), relation(), changes(0), commit(1), relation()]).is_err());
    assert_eq!(position(&store), None);
    send(vec![begin(), relation(), changes(0), commit(1)]).unwrap();
    assert_eq!((position(&store), rows(&store).len()), (Some(30), 1));
}
