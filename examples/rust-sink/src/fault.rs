//! Why a call is refused, in words that hold no value of anybody's row.

use rusqlite::ErrorCode;
use tonic::{Code, Status};

/// A refusal. The reason, where there is one, decides what the sidecar does; the code otherwise.
#[derive(Debug)]
pub struct Fault {
    code: Code,
    reason: Option<&'static str>,
    text: String,
}

pub type Result<T> = std::result::Result<T, Fault>;

impl Fault {
    fn new(code: Code, reason: Option<&'static str>, text: impl Into<String>) -> Self {
        let text = text.into();
        Fault { code, reason, text }
    }
}

/// The stream or the store is not what the call takes for granted.
pub fn refused(reason: &'static str, text: impl Into<String>) -> Fault {
    Fault::new(Code::FailedPrecondition, Some(reason), text)
}

/// The request breaks the contract.
pub fn broken(text: impl Into<String>) -> Fault {
    Fault::new(Code::InvalidArgument, None, text)
}

/// SQLite has no true form of this value.
pub fn unrepresentable(text: impl Into<String>) -> Fault {
    Fault::new(Code::OutOfRange, Some("VALUE_UNREPRESENTABLE"), text)
}

/// It is not known what happened. When in doubt, this one: it costs the sidecar one round.
pub fn unknown(text: impl Into<String>) -> Fault {
    Fault::new(Code::Internal, None, text)
}

/// Nobody waits for this call any more.
pub fn abandoned() -> Fault {
    Fault::new(Code::Cancelled, None, "the caller left")
}

/// SQLite's own text quotes statements and rows, so it goes no further than here.
impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation) => {
                refused("UNIT_REJECTED", "a constraint of the store does not allow this unit")
            }
            Some(ErrorCode::TooBig) => unrepresentable("a row is larger than the store allows"),
            // We only ever wait for the lock before the first write, so nothing was done.
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Fault::new(Code::Unavailable, Some("NOT_READY"), "another process holds the store")
            }
            Some(code) => unknown(format!("the store failed: {code:?}")),
            None => unknown("the store does not hold what it should"),
        }
    }
}

/// A full disk, for example, while a large transaction is put aside.
impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        unknown(format!("the file system failed: {}", error.kind()))
    }
}

impl From<Fault> for Status {
    fn from(fault: Fault) -> Self {
        let mut status = Status::new(fault.code, fault.text);
        if let Some(reason) = fault.reason {
            let value = tonic::metadata::MetadataValue::from_static(reason);
            status.metadata_mut().insert("sink-reason", value);
        }
        status
    }
}
