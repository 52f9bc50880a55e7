//! Where to listen: what the sidecar says in REPLICANT_SINK_LISTEN.

use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{fs, str::FromStr};

use tokio::net::UnixListener;

/// `unix:/path` or `host:port`.
#[derive(Debug, PartialEq)]
pub enum Address {
    Unix(PathBuf),
    Tcp(String),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("unix: without a path".into()),
            Some(path) => Ok(Address::Unix(path.into())),
            None if text.contains(':') => Ok(Address::Tcp(text.into())),
            None => Err("neither unix:/path nor host:port".into()),
        }
    }
}

/// Listens on a socket that only this user may open. One that a killed sink left behind is in the
/// way of its successor and removed; any other file is not ours.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path)?,
        Ok(_) => return Err(ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_both_forms_and_no_third() {
        assert_eq!("unix:/run/s".parse(), Ok(Address::Unix("/run/s".into())));
        assert_eq!("127.0.0.1:50051".parse(), Ok(Address::Tcp("127.0.0.1:50051".into())));
        assert!("unix:".parse::<Address>().is_err());
        assert!("50051".parse::<Address>().is_err());
    }

    #[tokio::test]
    async fn takes_over_from_a_sink_that_was_killed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sink.sock");
        drop(bind(&path).unwrap());
        assert!(path.exists());
        let _listener = bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn leaves_other_files_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precious");
        fs::write(&path, "x").unwrap();
        assert!(bind(&path).is_err());
        assert!(path.exists());
    }
}
