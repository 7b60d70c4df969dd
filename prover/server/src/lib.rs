//! gRPC and HTTP front of the engine.
