//! One transaction that does not fit into a request: frames, put aside until the last one.
//!
//! They do not wait in an open transaction of the store: that would keep out every other stream,
//! and every claim, for as long as the caller likes.

use crate::aside::Aside;
use crate::fault::{Result, broken};
use crate::mirror::{Mirror, count};
use crate::proto::handle_large_transaction_request::Frame;
use crate::proto::{
    HandleLargeTransactionRequest as Request, HandleLargeTransactionResponse as Response,
    LargeBegin, LargeCommit,
};
use crate::store::Store;
use crate::streams;
use crate::units::context;

/// Takes the frames of a call until `next` has no more. Without a commit frame nothing happened.
pub fn handle(
    store: &Store,
    mut next: impl FnMut() -> Result<Option<Request>>,
) -> Result<Response> {
    let order = || broken("a frame is missing, unknown or out of order");
    let Some(Request { frame: Some(Frame::Begin(begin)) }) = next()? else {
        return Err(order());
    };
    // To refuse early what would be refused at the end.
    let call = context(&begin.context)?;
    store.read(|db| streams::admit(db, call, begin.expected_checkpoint))?;
    let mut aside = Aside::new(store.folder())?;
    let mut changes = 0;
    let commit = loop {
        let request = next()?.ok_or_else(order)?;
        match &request.frame {
            Some(Frame::Relation(_)) => {}
            Some(Frame::Changes(frame)) if frame.first_change_index == changes => {
                changes += frame.changes.len() as u64;
            }
            Some(Frame::Commit(commit)) if commit.change_count == changes => break commit.clone(),
            _ => return Err(order()),
        }
        aside.push(&request)?;
    };
    match next()? {
        None => apply(store, &begin, &commit, aside),
        Some(_) => Err(order()),
    }
}

/// All of it in one transaction of the store, under the epoch and the position of now.
fn apply(
    store: &Store,
    begin: &LargeBegin,
    commit: &LargeCommit,
    aside: Aside,
) -> Result<Response> {
    let call = context(&begin.context)?;
    store.write(|db| {
        let stream = streams::admit(db, call, begin.expected_checkpoint)?;
        let mut mirror = Mirror::new(db, &call.stream_id, stream.generation, Vec::new());
        if Some(commit.end_lsn) <= stream.position {
            count(&mut mirror.counts.replayed_transactions, 1);
        } else {
            for request in aside.read::<Request>()? {
                match request?.frame {
                    Some(Frame::Relation(relation)) => mirror.add(relation),
                    Some(Frame::Changes(frame)) => {
                        let first = frame.first_change_index;
                        mirror.apply(begin.commit_lsn, first, &frame.changes)?;
                    }
                    _ => return Err(broken("only relations and changes are put aside")),
                }
            }
        }
        let (end, lsn) = (commit.end_lsn, commit.checkpoint_lsn);
        streams::advance(db, call, &stream, end, lsn, &commit.resume_state)?;
        Ok(Response { checkpoint_lsn: lsn, counts: Some(mirror.counts) })
    })
}
