//! The contract, as build.rs compiled it from proto/sink/v1.
#![allow(clippy::all, missing_docs)]

tonic::include_proto!("replicant.sink.v1");
