//! What the planner is told.

use proofmill_proto::v1;

use crate::index::{CircuitObject, JobObject, Key, NodeObject, PodObject, PoolObject};
use crate::pool::Checked;

/// What was seen.
#[derive(Debug)]
pub enum Input {
    /// Circuits changed.
    Circuits(Change<CircuitObject>),
    /// Jobs changed.
    Jobs(Change<JobObject>),
    /// Pools changed.
    Pools(Change<PoolObject>),
    /// Prover pods changed.
    Pods(Change<PodObject>),
    /// Nodes changed.
    Nodes(Change<NodeObject>),
    /// An engine said something, or was lost.
    Engine {
        /// Its pod's UID.
        pod: String,
        /// What.
        news: EngineNews,
    },
    /// What became of a submission.
    Submitted {
        /// The pod's UID.
        pod: String,
        /// Which partition.
        id: v1::PartitionId,
        /// Nothing, or why not.
        refusal: Option<Refusal>,
    },
    /// The operator's own check of a job's proofs ended.
    Verified {
        /// The job.
        job: Key,
        /// Its UID.
        uid: String,
        /// Nothing, or what is wrong.
        fault: Option<VerifyFault>,
    },
    /// A status write ended.
    Written {
        /// The job.
        job: Key,
        /// Its UID.
        uid: String,
        /// The object as it is now, or why not.
        result: Result<Box<JobObject>, WriteFault>,
    },
    /// The ConfigMap of a job's output was written, or why not.
    OutputWritten {
        /// The job.
        job: Key,
        /// Its UID.
        uid: String,
        /// Nothing, or what is wrong.
        fault: Option<OutputFault>,
    },
    /// What a pool needed was done, as far as it went.
    Tended {
        /// The pool.
        pool: Key,
        /// Its UID.
        uid: String,
        /// How it went.
        news: Box<Tended>,
    },
    /// A Circuit's status write ended.
    CircuitWritten {
        /// The circuit.
        circuit: Key,
        /// Its UID.
        uid: String,
        /// The object as it is now, or why not.
        result: Result<Box<CircuitObject>, WriteFault>,
    },
    /// This replica leads now, by a Lease with so many transitions.
    Leads(u64),
}

/// A change of one kind's objects.
#[derive(Debug)]
pub enum Change<T> {
    /// All there are in a namespace, or anywhere.
    Listed(Option<String>, Vec<T>),
    /// One is new or other than it was.
    Applied(Box<T>),
    /// One is gone.
    Deleted(Key),
}

/// What an engine said.
#[derive(Debug)]
pub enum EngineNews {
    /// It answered: this is all it works on.
    Listed(v1::ListResponse),
    /// A partition changed.
    Partition(Box<v1::PartitionEvent>),
    /// How it is.
    Status(Box<v1::EngineStatus>),
    /// The connection broke, or none came about; why.
    Lost(String),
}

/// How it went with a pool's needs.
#[derive(Debug, Default)]
pub struct Tended {
    /// The API server's word on the template.
    pub checked: Option<Checked>,
    /// A pod was created.
    pub created: bool,
    /// The API server's words when it refused a pod.
    pub refused: Option<String>,
    /// The pool as it is now, if its status was written.
    pub written: Option<Result<PoolObject, WriteFault>>,
    /// What failed otherwise: it is tried again.
    pub failed: bool,
}

/// Why a submission did not come about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The engine has no room, drains, or was not reached: elsewhere or later.
    Later(String),
    /// A newer leader is at work.
    StaleEpoch,
    /// The engine does not understand the request: it will not next time either.
    Invalid(String),
    /// The ConfigMap or Secret with the input is not there (yet).
    NoInput(String),
    /// The input can never be sent.
    BadInput(String),
}

/// What is wrong with a proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerifyFault {
    /// The verifying key could not be had from any engine.
    NoKey(String),
    /// It does not verify.
    Wrong(String),
}

/// Why a status was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteFault {
    /// The object is another one by now; a watch tells.
    Conflict,
    /// It is gone.
    Gone,
    /// The API server did not take it.
    Failed(String),
}

/// Why an output was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputFault {
    /// A ConfigMap of that name exists and is not the job's.
    Conflict,
    /// It would never be taken: too large, or invalid.
    Impossible(String),
    /// The API server did not take it.
    Failed(String),
}
