//! How `submit` and `status` reach a daemon.

use proofmill_server::client::{Blame, Client, ClientConfig, ClientError, ClientTls};

use crate::cli::DaemonArgs;
use crate::error::CliError;
use crate::results::JobFailure;

/// Where the daemon is and how it is reached.
pub fn config(args: &DaemonArgs) -> Result<ClientConfig, CliError> {
    let address = args.to.parse().map_err(|e: ClientError| CliError::Usage(format!("--to: {e}")))?;
    let mut config = ClientConfig::new(address);
    config.tls = match (&args.tls_cert, &args.tls_key, &args.tls_ca) {
        (Some(certificate), Some(key), Some(ca)) => Some(ClientTls {
            certificate: certificate.clone(),
            key: key.clone(),
            ca: ca.clone(),
            server_name: args.tls_name.clone(),
        }),
        _ => None,
    };
    Ok(config)
}

/// A client; needs a tokio runtime.
pub fn connect(config: ClientConfig) -> Result<Client, CliError> {
    Client::new(config).map_err(client_error)
}

/// A client's error as the command's, by who can mend it.
pub fn client_error(error: ClientError) -> CliError {
    let message = error.to_string();
    match error.blame() {
        Blame::Request => CliError::Usage(message),
        Blame::Input => CliError::Input(message),
        Blame::Engine => CliError::Engine(message),
    }
}

impl From<ClientError> for JobFailure {
    fn from(error: ClientError) -> Self {
        Self { reason: error.reason().to_owned(), message: error.to_string(), code: client_error(error).code() }
    }
}
