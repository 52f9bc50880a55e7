//! Whole transactions, one or many, with their position: the call that nearly all of a stream is.

use rusqlite::Connection;

use crate::fault::{Result, broken};
use crate::mirror::{Mirror, count, none};
use crate::proto::{
    HandleBatchRequest, HandleBatchResponse, HandleMessageRequest, HandleMessageResponse,
    HandleTransactionRequest, HandleTransactionResponse, StreamContext,
};
use crate::{messages, streams};

/// The context of a call, which each has.
pub fn context(context: &Option<StreamContext>) -> Result<&StreamContext> {
    context.as_ref().ok_or_else(|| broken("the context is missing"))
}

/// Several transactions, or none: an idle step, which only moves the position.
pub fn batch(db: &Connection, request: HandleBatchRequest) -> Result<HandleBatchResponse> {
    let call = context(&request.context)?;
    let stream = streams::admit(db, call, request.expected_checkpoint)?;
    let mut mirror = Mirror::new(db, &call.stream_id, stream.generation, request.relations);
    let mut end = 0;
    for transaction in &request.transactions {
        if transaction.end_lsn <= end {
            return Err(broken("end_lsn does not rise"));
        }
        end = transaction.end_lsn;
        if Some(end) <= stream.position {
            count(&mut mirror.counts.replayed_transactions, 1);
        } else {
            mirror.apply(transaction.commit_lsn, 0, &transaction.changes)?;
        }
    }
    let lsn = request.checkpoint_lsn;
    streams::advance(db, call, &stream, end, lsn, &request.resume_state)?;
    Ok(HandleBatchResponse { checkpoint_lsn: lsn, counts: Some(mirror.counts) })
}

/// A batch of one.
pub fn transaction(
    db: &Connection,
    request: HandleTransactionRequest,
) -> Result<HandleTransactionResponse> {
    let done = batch(
        db,
        HandleBatchRequest {
            context: request.context,
            expected_checkpoint: request.expected_checkpoint,
            checkpoint_lsn: request.checkpoint_lsn,
            relations: request.relations,
            transactions: request.transaction.into_iter().collect(),
            resume_state: request.resume_state,
        },
    )?;
    Ok(HandleTransactionResponse { checkpoint_lsn: done.checkpoint_lsn, counts: done.counts })
}

/// A message outside of transactions. Its LSN is its position.
pub fn message(db: &Connection, request: HandleMessageRequest) -> Result<HandleMessageResponse> {
    let call = context(&request.context)?;
    let message = request.message.ok_or_else(|| broken("the message is missing"))?;
    let stream = streams::admit(db, call, request.expected_checkpoint)?;
    let lsn = request.checkpoint_lsn;
    if Some(message.lsn) > stream.position {
        messages::keep(db, &call.stream_id, message.lsn, 0, &message)?;
    }
    streams::advance(db, call, &stream, message.lsn, lsn, &request.resume_state)?;
    Ok(HandleMessageResponse { checkpoint_lsn: lsn, counts: Some(none()) })
}
