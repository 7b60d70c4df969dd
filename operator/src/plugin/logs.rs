//! What pods said about a job.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, LogParams};
use kube::{Client, ResourceExt as _};
use proofmill_crds::ProofJob;

use super::PluginError;

/// Prints the lines of its pods' logs that name the job.
pub async fn run(client: &Client, namespace: &str, job: &ProofJob) -> Result<(), PluginError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let partitions = job.status.iter().flat_map(|status| &status.partitions);
    let mut names: Vec<&String> = partitions.filter_map(|partition| partition.pod.as_ref()).collect();
    names.sort();
    names.dedup();
    if names.is_empty() {
        return Err(PluginError::Missing(format!("{} has not been sent to a pod yet", job.name_any())));
    }
    let uid = job.uid().unwrap_or_default();
    for name in names {
        let params = LogParams { container: Some("prover".to_owned()), ..LogParams::default() };
        match pods.logs(name, &params).await {
            Ok(text) => {
                for line in text.lines().filter(|line| line.contains(&uid)) {
                    println!("{name}: {line}");
                }
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                eprintln!("pod {name} is gone, and its log with it");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
