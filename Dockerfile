# syntax=docker/dockerfile:1
# One image with both programs: `proofmill-operator` and `prover`, with every feature. It has no shell and runs as 65532.
#
#   docker build --tag registry.example.com/proofmill/proofmill:0.1.0 .
#
# The container runtime hands GPUs in by what a pod asks for (nvidia.com/gpu or a resource claim). The image must not set
# NVIDIA_VISIBLE_DEVICES: with `all` it would see every GPU of its node, whoever they were given to.
FROM docker.io/library/rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
# x86-64-v2 is every server CPU since 2009. What newer ones have (BMI2, ADX) is found when the program runs, so a newer
# baseline gains little and `native` would make an image for one machine.
ARG TARGETARCH
ARG TARGET_CPU
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cpu=${TARGET_CPU:-$([ "$TARGETARCH" = arm64 ] && echo generic || echo x86-64-v2)} && \
    RUSTFLAGS="-C target-cpu=$cpu" cargo build --release --locked \
        --package proofmill-operator --package proofmill-prover --features proofmill-prover/full && \
    install -D --strip --target-directory /out target/release/proofmill-operator target/release/prover

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /out/ /usr/local/bin/
COPY LICENSE-APACHE LICENSE-MIT /usr/share/doc/proofmill/
LABEL org.opencontainers.image.title="proofmill"
LABEL org.opencontainers.image.description="Groth16 proofs on a fleet of GPUs: the operator and the proving engine."
LABEL org.opencontainers.image.source="https://github.com/proofmill/proofmill"
LABEL org.opencontainers.image.licenses="Apache-2.0 OR MIT"
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/proofmill-operator"]
