//! What the planner wants done.

use proofmill_crds::circuit::CircuitStatus;
use proofmill_crds::proof_job::ProofJobStatus;
use proofmill_crds::prover_pool::ProverPoolStatus;
use proofmill_proto::v1;

use crate::index::{JobObject, Key, Meta, PoolObject};
use crate::pool::Action;

/// What should be done.
#[derive(Clone, Debug)]
pub enum Command {
    /// Keep a connection to a pod's engine.
    Connect(Address),
    /// Drop it.
    Disconnect(String),
    /// Send a partition.
    Submit(Box<Submission>),
    /// Cancel a partition.
    Cancel {
        /// The pod's UID.
        pod: String,
        /// Which.
        id: v1::PartitionId,
    },
    /// A result is stored.
    Ack {
        /// The pod's UID.
        pod: String,
        /// Which.
        id: v1::PartitionId,
    },
    /// A job's priority changed.
    Reprioritise {
        /// The pod's UID.
        pod: String,
        /// The job's UID.
        job: String,
        /// The new one.
        priority: v1::Priority,
    },
    /// Check a job's proofs.
    Verify(Box<Verification>),
    /// Write a job's status.
    WriteStatus {
        /// The job's object as it was planned from.
        job: Box<Meta>,
        /// The new status.
        status: Box<ProofJobStatus>,
    },
    /// Do what a pool needs: its actions in order, then its status.
    Tend {
        /// The pool as it was planned from.
        pool: Box<PoolObject>,
        /// In this order.
        actions: Vec<Action>,
        /// The new status, if it is to be written.
        status: Option<Box<ProverPoolStatus>>,
    },
    /// Keep up a pool's certificate from now on.
    KeepPool(Box<PoolObject>),
    /// A pool is gone.
    ForgetPool(Key),
    /// Have an engine forget a circuit that is another one by now.
    Evict {
        /// The pod's UID.
        pod: String,
        /// The circuit.
        circuit: String,
    },
    /// Have an engine keep a circuit in memory.
    Preload {
        /// The pod's UID.
        pod: String,
        /// The circuit.
        circuit: Box<v1::Circuit>,
    },
    /// Write a Circuit's status.
    WriteCircuit {
        /// The circuit's object as it was planned from.
        circuit: Box<Meta>,
        /// The new status.
        status: Box<CircuitStatus>,
    },
    /// Write a job's proof to a ConfigMap.
    WriteOutput {
        /// The job.
        job: Box<JobObject>,
        /// Its proofs.
        proofs: Vec<v1::PartitionProof>,
    },
    /// Delete a job whose time to live is over.
    DeleteJob(Box<Meta>),
    /// Tell humans.
    Tell {
        /// About which job.
        job: Box<Meta>,
        /// One word.
        reason: &'static str,
        /// A sentence.
        note: String,
        /// Something is wrong.
        warning: bool,
    },
    /// A newer leader is at work: stop.
    StepDown,
}

/// Where an engine listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Its pod's UID.
    pub pod: String,
    /// Its pod's name.
    pub key: Key,
    /// Its pool.
    pub pool: String,
    /// Its IP address.
    pub ip: String,
}

/// A partition to be sent.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The pod's UID.
    pub pod: String,
    /// The job, whose input is to be read.
    pub job: Key,
    /// All but digest and input.
    pub request: v1::SubmitRequest,
    /// The job's input.
    pub input: proofmill_crds::source::Input,
    /// The digest that the input must have: that of the first fetch.
    pub input_digest: Option<[u8; 32]>,
}

/// Proofs to be checked.
#[derive(Clone, Debug)]
pub struct Verification {
    /// The job.
    pub job: Key,
    /// Its UID.
    pub uid: String,
    /// Its proofs are tags of a simulated device, which prove nothing.
    pub simulated: bool,
    /// Pods that may know the verifying key, by UID.
    pub pods: Vec<String>,
    /// The digest that the Circuit's verifying key has, once known.
    pub verifying_key: Option<[u8; 32]>,
    /// The proofs.
    pub proofs: Vec<v1::PartitionProof>,
}
