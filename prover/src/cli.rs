//! What was typed: the commands, their flags and the help that teaches them. No flag is acted on here.

pub mod values;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use values::{FaultKind, parse_duration, parse_fault, parse_sha256, parse_size};

/// Groth16 proofs from the manifests that a cluster takes, with every second accounted for.
#[derive(Debug, Parser)]
#[command(
    name = "prover",
    version,
    max_term_width = 110,
    after_help = "\
Exit codes: 0 every job succeeded (verify: the proof is valid) · 1 the proof is invalid (verify)
            2 wrong usage or manifest · 3 bad input or key · 4 the witness does not satisfy the circuit
            5 engine or device failure · 130 interrupted
            If several jobs fail, the highest of their codes.

Start with:  prover run -f examples/quickstart.yaml"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,

    /// Which log lines go to stderr, e.g. `info` or `warn,proofmill::timing=info`; RUST_LOG is the default.
    #[arg(long, global = true, value_name = "FILTER")]
    pub log: Option<String>,

    /// How log lines look.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Prove the ProofJobs of one or more manifests on this machine, and verify every proof.
    Run(RunArgs),
    /// Run the proving daemon: gRPC for work, HTTP for metrics, status and trace.
    #[cfg(feature = "serve")]
    Serve(ServeArgs),
    /// Send the ProofJobs of a manifest to a daemon and wait for their proofs.
    #[cfg(feature = "serve")]
    Submit(SubmitArgs),
    /// Show what a daemon is doing.
    #[cfg(feature = "serve")]
    Status(StatusArgs),
    /// Check a zkey completely, once, and keep it in the form that proofs start from at once.
    Import(ImportArgs),
    /// Say what is in a file: zkey, wtns, r1cs or imported key.
    Inspect(InspectArgs),
    /// Check a proof against a verifying key and its public signals; snarkjs's files are welcome.
    Verify(VerifyArgs),
    /// Write parts of a key in the forms that other tools read.
    #[command(subcommand)]
    Export(ExportCommand),
    /// Measure this machine, beside peers where they are installed.
    Bench(BenchArgs),
    /// Tools for development. What they make is insecure.
    #[command(subcommand)]
    Dev(DevCommand),
}

impl Command {
    /// Whether it serves others until it is told to stop.
    pub const fn is_daemon(&self) -> bool {
        #[cfg(feature = "serve")]
        if matches!(self, Self::Serve(_)) {
            return true;
        }
        false
    }
}

/// Flags of `prover run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  prover run -f examples/quickstart.yaml
  prover run -f circuit.yaml -f jobs.yaml --out proofs --trace trace.json
  kubectl get circuit,proofjob -o yaml | prover run -f -

A manifest holds Circuit and ProofJob documents, the same that `kubectl apply` takes; a ProverPool is left out.
Relative `file:` URLs are resolved from the manifest's folder. Each job leaves OUT/NAME/proof.json, public.json (both
as snarkjs writes them) and proof.bin.")]
pub struct RunArgs {
    /// A manifest (YAML or JSON, several documents allowed); `-` is stdin. May be given several times.
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Folder for the proofs; one folder per job inside it.
    #[arg(long, value_name = "DIR", default_value = "proofs")]
    pub out: PathBuf,

    /// One JSON object per line on stdout instead of words and bars.
    #[arg(long)]
    pub json: bool,

    /// Write a trace of the run, to be opened in ui.perfetto.dev or chrome://tracing. It reaches back as far as
    /// --trace-window says, and holds the last 262,144 events at most (a proof leaves 20 to 200).
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// Print what circuits print with `log()`. It may show private signals.
    #[arg(long)]
    pub circuit_log: bool,

    /// The engine.
    #[command(flatten)]
    pub engine: EngineArgs,

    /// Keys and inputs.
    #[command(flatten)]
    pub sources: SourceArgs,
}

/// Flags of every command that starts an engine.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Engine")]
pub struct EngineArgs {
    /// Where proofs are computed.
    #[arg(long, value_enum, default_value_t = DeviceKind::Cpu)]
    pub device: DeviceKind,

    /// Threads of the CPU device [default: all cores].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,

    /// Number of simulated devices.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub simulated_devices: u16,

    /// A fault of simulated device 0, as KIND@N: partition N (from 0) meets it. KIND is prepare, step, stall, finish or
    /// invalid-proof. May be given several times.
    #[arg(long = "simulated-fault", value_name = "KIND@N", value_parser = parse_fault)]
    pub simulated_faults: Vec<(u64, FaultKind)>,

    /// Threads that turn inputs into assignments [default: 1 up to 4 cores, then a quarter of them].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub synthesis_workers: Option<u16>,

    /// Memory for everything, e.g. `16GiB` [default: the cgroup's or machine's, less max(512 MiB, 10 %)].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,

    /// Memory of that kept for one Critical job, e.g. `2GiB`.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "0")]
    pub reserve_critical: u64,

    /// How long the trace reaches back, e.g. `10m`; at most 262,144 events (a proof leaves 20 to 200).
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10m")]
    pub trace_window: Duration,
}

/// The devices that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DeviceKind {
    /// The CPU's cores.
    Cpu,
    /// Scripted durations instead of mathematics, for Circuits of the kind `simulated` only.
    Simulated,
}

/// Flags of every command that fetches inputs or keys.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Keys and inputs")]
pub struct SourceArgs {
    /// Folder of imported keys [default: $XDG_CACHE_HOME/proofmill/keys].
    #[arg(long, value_name = "DIR")]
    pub key_cache: Option<PathBuf>,

    /// Bytes that imported keys may take on disk, e.g. `200GiB`; the least recently used go first.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "100GiB")]
    pub key_cache_limit: u64,

    /// The largest input that is fetched.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "1GiB")]
    pub input_limit: u64,

    /// The largest key that is fetched.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "256GiB")]
    pub key_limit: u64,

    /// More certificates (PEM) that HTTPS servers may be signed by.
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
}

/// Flags of `prover serve`.
#[cfg(feature = "serve")]
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  prover serve --listen unix:/run/proofmill.sock --http 127.0.0.1:9090
  prover serve --listen 127.0.0.1:7000 --http 127.0.0.1:9090 --file-root /data

On SIGTERM intake closes, running work finishes within --grace, and the exit code is 0.")]
pub struct ServeArgs {
    /// Address of the gRPC service: HOST:PORT or unix:PATH.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7000")]
    pub listen: String,

    /// Address of /metrics, /healthz, /readyz, /status and /trace: HOST:PORT.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9090")]
    pub http: String,

    /// Folder beneath which `file:` URLs of jobs and circuits are opened.
    #[arg(long, value_name = "DIR", default_value = "/data")]
    pub file_root: PathBuf,

    /// URL prefixes that jobs and circuits may name, e.g. `https://keys.example.com/` or `s3://bucket/keys/`.
    #[arg(long = "allow-url", value_name = "PREFIX")]
    pub allow_urls: Vec<String>,

    /// Prove with keys whose proofs anyone can forge.
    #[arg(long)]
    pub allow_insecure_keys: bool,

    /// Serve gRPC without TLS on an address that is not loopback.
    #[arg(long)]
    pub insecure: bool,

    /// Certificate chain (PEM) of the gRPC service; with --tls-key and --tls-client-ca turns on mutual TLS.
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_client_ca"])]
    pub tls_cert: Option<PathBuf>,

    /// Private key (PEM) of the gRPC service.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// The CA (PEM) that signs clients.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,

    /// How long running work may take to finish after SIGTERM.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10m")]
    pub grace: Duration,

    /// The engine.
    #[command(flatten)]
    pub engine: EngineArgs,

    /// Keys and inputs.
    #[command(flatten)]
    pub sources: SourceArgs,
}

/// How a client finds a daemon.
#[cfg(feature = "serve")]
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Daemon")]
pub struct DaemonArgs {
    /// Address of the daemon's gRPC service: HOST:PORT, unix:PATH, or https://HOST:PORT for mutual TLS.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7000")]
    pub to: String,

    /// This client's certificate chain (PEM); its name must be operator.proofmill.dev.
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_ca"])]
    pub tls_cert: Option<PathBuf>,

    /// This client's private key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// The CA (PEM) that signs the daemon.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_ca: Option<PathBuf>,

    /// The name in the daemon's certificate [default: the host of --to].
    #[arg(long, value_name = "NAME", requires = "tls_cert")]
    pub tls_name: Option<String>,
}

/// Flags of `prover submit`.
#[cfg(feature = "serve")]
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  prover submit -f examples/quickstart.yaml --to 127.0.0.1:7000 --out proofs

`file:` URLs of Circuits are opened by the daemon, beneath its --file-root. Inputs given as relative `file:` URLs are
read here and sent along, up to 1 MiB.

A job that the daemon refuses, or that fails, does not stop the others: all are followed to their end, each is reported,
and the exit code is the highest of theirs. Ctrl-C cancels at the daemon what was submitted.")]
pub struct SubmitArgs {
    /// A manifest; `-` is stdin. May be given several times.
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Folder for the proofs; one folder per job inside it.
    #[arg(long, value_name = "DIR", default_value = "proofs")]
    pub out: PathBuf,

    /// One JSON object per line on stdout instead of words.
    #[arg(long)]
    pub json: bool,

    /// The daemon.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// Flags of `prover status`.
#[cfg(feature = "serve")]
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Go on showing until interrupted.
    #[arg(short, long)]
    pub watch: bool,

    /// The daemon's own JSON.
    #[arg(long)]
    pub json: bool,

    /// The daemon.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// Flags of `prover import`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  prover import circuit.zkey
  prover import circuit.zkey --out circuit.key      # a key file to hand out, instead of a cache entry")]
pub struct ImportArgs {
    /// The zkey (or an imported key): a path or a URL.
    pub key: String,

    /// Write the imported key here instead of into the cache.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// The SHA-256 that the file must have.
    #[arg(long, value_name = "HEX", value_parser = parse_sha256)]
    pub sha256: Option<[u8; 32]>,

    /// The result as one JSON object on stdout.
    #[arg(long)]
    pub json: bool,

    /// Keys and inputs.
    #[command(flatten)]
    pub sources: SourceArgs,
}

/// Flags of `prover inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// A zkey, wtns, r1cs or imported key; told apart by content.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,

    /// One JSON object per file.
    #[arg(long)]
    pub json: bool,
}

/// Flags of `prover verify`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  prover verify --key verification_key.json --proof proof.json --public public.json
  prover verify --key circuit.zkey --proof proofs/first/proof.json --public proofs/first/public.json")]
pub struct VerifyArgs {
    /// verification_key.json, a zkey or an imported key.
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,

    /// proof.json or proof.bin.
    #[arg(long, value_name = "FILE")]
    pub proof: PathBuf,

    /// public.json.
    #[arg(long, value_name = "FILE")]
    pub public: PathBuf,
}

/// What can be exported.
#[derive(Debug, Subcommand)]
pub enum ExportCommand {
    /// The verifying key, as snarkjs's verification_key.json.
    Vk(ExportVkArgs),
}

/// Flags of `prover export vk`.
#[derive(Debug, Args)]
pub struct ExportVkArgs {
    /// A zkey or an imported key.
    pub key: PathBuf,

    /// The file to write [default: stdout].
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Flags of `prover bench`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  prover bench --zkey circuit.zkey --wtns witness.wtns --snarkjs node_modules/snarkjs/build/cli.cjs")]
pub struct BenchArgs {
    /// The key to prove with.
    #[arg(long, value_name = "FILE")]
    pub zkey: PathBuf,

    /// A witness that satisfies it.
    #[arg(long, value_name = "FILE")]
    pub wtns: PathBuf,

    /// Proofs per measurement; the median counts.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub repeat: u16,

    /// snarkjs's command (a .js or .cjs file for node), to be measured beside.
    #[arg(long, value_name = "FILE")]
    pub snarkjs: Option<PathBuf>,

    /// The program of tests/bench/peers, to measure ark-circom and ark-groth16 beside (BN254 only).
    #[arg(long, value_name = "FILE")]
    pub ark: Option<PathBuf>,

    /// Jobs in the queue of the throughput measurement; 0 leaves it out.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub queue: u32,

    /// Submissions of the latency measurement over gRPC; 0 leaves it out.
    #[cfg(feature = "serve")]
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub latency: u32,

    /// One JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Development tools.
#[derive(Debug, Subcommand)]
pub enum DevCommand {
    /// Make a zkey from an r1cs with a trapdoor known to this process. INSECURE: for tests and benchmarks only.
    Setup(DevSetupArgs),
}

/// Flags of `prover dev setup`.
#[derive(Debug, Args)]
pub struct DevSetupArgs {
    /// The constraints, as circom writes them.
    pub r1cs: PathBuf,

    /// The zkey to write.
    #[arg(short, long, value_name = "FILE")]
    pub out: PathBuf,

    /// Derive the trapdoor from this number, so that the same file comes out again.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
