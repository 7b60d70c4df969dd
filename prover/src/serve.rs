//! `prover serve`: the daemon.

use std::sync::Arc;

use proofmill_server::config::{ServeConfig, TlsFiles, VerifyingKeys};
use proofmill_server::{Ended, Listen, Server, shutdown};
use proofmill_sources::policy::FileAccess;

use crate::circuits::Circuits;
use crate::cli::{DeviceKind, ServeArgs};
use crate::environment::Environment;
use crate::error::CliError;
use crate::runtime;
use crate::wiring::{self, Wiring};

/// Serves until SIGTERM or SIGINT, then drains. A second signal ends it at once.
pub fn serve(args: ServeArgs, environment: &Environment) -> Result<(), CliError> {
    let listen: Listen = args.listen.parse().map_err(|e| CliError::Usage(format!("--listen: {e}")))?;
    let http = args.http.parse().map_err(|_| {
        CliError::Usage(format!("--http: `{}` is no address; give IP:PORT, such as 127.0.0.1:9090", args.http))
    })?;
    let mut config = ServeConfig::new(listen, Some(http));
    config.insecure = args.insecure;
    config.drain_grace = args.grace;
    config.tls = match (&args.tls_cert, &args.tls_key, &args.tls_client_ca) {
        (Some(certificate), Some(key), Some(client_ca)) => {
            Some(TlsFiles { certificate: certificate.clone(), key: key.clone(), client_ca: client_ca.clone() })
        }
        _ => None,
    };
    config.check().map_err(|e| CliError::Usage(e.to_string()))?;
    runtime::block_on(async {
        // Signals first: one that comes while the engine starts is not lost.
        let shutdown = shutdown::on_signals().map_err(|e| CliError::Engine(format!("cannot catch signals: {e}")))?;
        let (engine, circuits) = wiring::start(&Wiring {
            engine: &args.engine,
            sources: &args.sources,
            environment,
            files: FileAccess::Root(args.file_root.clone()),
            allow_urls: Some(&args.allow_urls),
            refuse_insecure_keys: !args.allow_insecure_keys,
            circuit_log: false,
            canary: args.engine.device == DeviceKind::Cpu,
        })?;
        config.settings = settings(&args);
        config.verifying_keys = Some(Arc::new(ServedKeys(circuits)));
        let server = Server::bind(config).await.map_err(|e| CliError::Engine(e.to_string()))?;
        eprintln!(
            "prover: gRPC at {}, HTTP at {}",
            server.grpc_place(),
            server.http_address().map_or_else(|| "no address".into(), |address| format!("http://{address}"))
        );
        match server.run(Arc::new(engine), shutdown).await {
            Ok(Ended::Finished) => Ok(()),
            Ok(Ended::HandedBack) => {
                eprintln!("prover: the grace period ended before all work had: the rest was handed back");
                Ok(())
            }
            Ok(Ended::Stopped) => Err(CliError::Interrupted),
            Err(error) => Err(CliError::Engine(error.to_string())),
        }
    })
}

/// What `proofmill_config_info` shows.
fn settings(args: &ServeArgs) -> Vec<(&'static str, String)> {
    let or_default = |value: Option<String>| value.unwrap_or_else(|| "default".into());
    vec![
        ("device", format!("{:?}", args.engine.device).to_lowercase()),
        ("threads", or_default(args.engine.threads.map(|n| n.to_string()))),
        ("synthesis_workers", or_default(args.engine.synthesis_workers.map(|n| n.to_string()))),
        ("memory", or_default(args.engine.memory.map(|n| n.to_string()))),
        ("key_cache_limit", args.sources.key_cache_limit.to_string()),
    ]
}

/// The verifying keys of loaded circuits.
struct ServedKeys(Arc<Circuits>);

impl VerifyingKeys for ServedKeys {
    fn verifying_key(&self, digest: &[u8; 32]) -> Option<Vec<u8>> {
        self.0.verifying_key(digest)
    }
}
