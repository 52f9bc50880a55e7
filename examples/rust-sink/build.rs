//! Compiles the contract, which is read where it lies: at the top of this repository.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=../../proto/sink/v1");
    let contract = protox::compile(["sink/v1/sink.proto"], ["../../proto"])?;
    tonic_prost_build::configure()
        .build_client(false)
        // What this sink does not advertise answers UNIMPLEMENTED without a line of ours.
        .generate_default_stubs(true)
        .compile_fds(contract)?;
    Ok(())
}
