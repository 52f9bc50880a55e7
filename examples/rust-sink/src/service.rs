//! The calls, each of which is work for the store.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tonic::{Request, Response, Status, Streaming, async_trait};

use crate::fault::{self, abandoned};
use crate::proto::sink_service_server::SinkService;
use crate::proto::*;
use crate::store::Store;
use crate::{large, snapshot, streams, units};

/// What the server receives at most. Higher than what we advertise: tonic refuses what is above
/// it with OUT_OF_RANGE, which would halt the sidecar where it should only send less.
pub const RECEIVES: usize = 64 << 20;

/// A sink over a store.
pub struct Service {
    store: Arc<Store>,
    instance_id: Vec<u8>,
}

type Answer<T> = Result<Response<T>, Status>;

impl Service {
    pub fn new(store: Store) -> Result<Self, getrandom::Error> {
        let mut instance_id = vec![0; 16];
        getrandom::fill(&mut instance_id)?;
        Ok(Service { store: Arc::new(store), instance_id })
    }

    /// SQLite blocks, so that it works on a thread of its own. The work is done to its end even
    /// if the caller gives up: tonic drops the waiting, and not the thread.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> fault::Result<T> + Send + 'static,
    ) -> Answer<T> {
        let store = self.store.clone();
        let done = spawn_blocking(move || work(&store)).await;
        let done = done.map_err(|_| Status::internal("a fault of the sink"))?;
        Ok(Response::new(done?))
    }
}

#[async_trait]
impl SinkService for Service {
    async fn get_capabilities(
        &self,
        _: Request<GetCapabilitiesRequest>,
    ) -> Answer<GetCapabilitiesResponse> {
        let capabilities = [
            Capability::Checkpoint,
            Capability::Transaction,
            Capability::Batch,
            Capability::LargeTransaction,
            Capability::Message,
            Capability::Snapshot,
            Capability::SnapshotComplete,
            Capability::SnapshotProgress,
            Capability::ResumeState,
        ];
        Ok(Response::new(GetCapabilitiesResponse {
            sink_name: "rust-sqlite-mirror".into(),
            sink_version: env!("CARGO_PKG_VERSION").into(),
            instance_id: self.instance_id.clone(),
            sink_kind: SinkKind::StateMirror.into(),
            capabilities: capabilities.map(i32::from).to_vec(),
            fencing: vec![Fencing::Stored.into()],
            limits: Some(Limits {
                max_request_bytes: 16 << 20,
                preferred_request_bytes: 4 << 20,
                max_transactions_per_batch: 1000,
                max_call_duration: None,
            }),
            ..Default::default()
        }))
    }

    async fn checkpoint(&self, request: Request<CheckpointRequest>) -> Answer<CheckpointResponse> {
        let request = request.into_inner();
        self.run(move |store| match &request.claim {
            None => store.read(|db| streams::checkpoint(db, &request)),
            Some(claim) => store.write(|db| {
                streams::claim(db, &request, claim)?;
                streams::checkpoint(db, &request)
            }),
        })
        .await
    }

    async fn handle_transaction(
        &self,
        request: Request<HandleTransactionRequest>,
    ) -> Answer<HandleTransactionResponse> {
        let request = request.into_inner();
        self.run(|store| store.write(|db| units::transaction(db, request))).await
    }

    async fn handle_batch(
        &self,
        request: Request<HandleBatchRequest>,
    ) -> Answer<HandleBatchResponse> {
        let request = request.into_inner();
        self.run(|store| store.write(|db| units::batch(db, request))).await
    }

    async fn handle_large_transaction(
        &self,
        request: Request<Streaming<HandleLargeTransactionRequest>>,
    ) -> Answer<HandleLargeTransactionResponse> {
        let (mut frames, handle) = (request.into_inner(), Handle::current());
        let next = move || handle.block_on(frames.message()).map_err(|_| abandoned());
        self.run(|store| large::handle(store, next)).await
    }

    async fn handle_message(
        &self,
        request: Request<HandleMessageRequest>,
    ) -> Answer<HandleMessageResponse> {
        let request = request.into_inner();
        self.run(|store| store.write(|db| units::message(db, request))).await
    }

    async fn handle_snapshot(
        &self,
        request: Request<HandleSnapshotRequest>,
    ) -> Answer<HandleSnapshotResponse> {
        let request = request.into_inner();
        self.run(|store| store.write(|db| snapshot::unit(db, request))).await
    }

    async fn handle_snapshot_complete(
        &self,
        request: Request<HandleSnapshotCompleteRequest>,
    ) -> Answer<HandleSnapshotCompleteResponse> {
        let request = request.into_inner();
        self.run(|store| store.write(|db| snapshot::complete(db, request))).await
    }

    async fn snapshot_progress(
        &self,
        request: Request<SnapshotProgressRequest>,
    ) -> Answer<SnapshotProgressResponse> {
        let request = request.into_inner();
        self.run(move |store| store.read(|db| snapshot::progress(db, &request))).await
    }
}
