//! A sink for Replicant Sidecar: a mirror of Postgres tables in one SQLite file.
//!
//! Read it from [`service`] (the calls) over [`units`] (transactions and their position) and
//! [`streams`] (epochs and positions) down to [`table`] (what happens to a row).

mod address;
mod aside;
mod catalog;
mod cells;
mod fault;
mod kept;
mod large;
mod messages;
mod mirror;
mod names;
mod number;
mod proto;
mod service;
mod snapshot;
mod store;
mod streams;
mod table;
#[cfg(test)]
mod tests;
mod units;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;
use std::{env, path::Path};

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::server::{Router, Server, TcpIncoming};

use crate::address::Address;
use crate::proto::sink_service_server::SinkServiceServer;
use crate::service::{RECEIVES, Service};
use crate::store::Store;

/// How long calls in flight have to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(3);
/// How long a caller that says nothing is believed to live.
const SILENCE: Duration = Duration::from_secs(15);

fn main() -> ExitCode {
    // One thread listens; those that work for the store are made as they are needed.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = runtime.map_err(Into::into).and_then(|runtime| {
        let ended = runtime.block_on(serve());
        runtime.shutdown_timeout(GRACE);
        ended
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rust-sink: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Serves until SIGTERM or SIGINT. Then calls in flight may end, for a while.
async fn serve() -> Result<(), Box<dyn Error>> {
    let listen =
        env::var("REPLICANT_SINK_LISTEN").map_err(|_| "REPLICANT_SINK_LISTEN is not set")?;
    let address: Address = listen.parse().map_err(|why| format!("REPLICANT_SINK_LISTEN: {why}"))?;
    let path = env::var_os("REPLICANT_SINK_DB").unwrap_or_else(|| "mirror.db".into());
    let service = SinkServiceServer::new(Service::new(Store::open(Path::new(&path))?)?);
    let router = Server::builder()
        // A caller that hangs must not be waited for; how often it asks us is its affair.
        .http2_keepalive_interval(Some(SILENCE))
        .http2_keepalive_timeout(Some(SILENCE))
        .http2_adaptive_window(Some(true))
        .add_service(service.max_decoding_message_size(RECEIVES));
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    let (stop, stopped) = oneshot::channel();
    let serving = listen_on(address, router, stopped);
    tokio::pin!(serving);
    tokio::select! {
        ended = &mut serving => return ended,
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    let _ = stop.send(());
    tokio::time::timeout(GRACE, serving).await.unwrap_or(Ok(()))
}

async fn listen_on(
    address: Address,
    router: Router,
    stopped: oneshot::Receiver<()>,
) -> Result<(), Box<dyn Error>> {
    let stop = async { stopped.await.unwrap_or_default() };
    match address {
        Address::Unix(path) => {
            let incoming = UnixListenerStream::new(address::bind(&path)?);
            router.serve_with_incoming_shutdown(incoming, stop).await?;
            std::fs::remove_file(path)?;
        }
        Address::Tcp(host) => {
            let incoming = TcpIncoming::from(TcpListener::bind(host).await?);
            router.serve_with_incoming_shutdown(incoming.with_nodelay(Some(true)), stop).await?;
        }
    }
    Ok(())
}
