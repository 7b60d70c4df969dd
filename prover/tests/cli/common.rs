//! What only these tests use beside `support`.

pub use crate::place::*;

impl Place {
    /// A manifest with the chain circuit of a curve and jobs given as (name, spec in JSON).
    pub fn chain_manifest(&self, curve: &str, circuit_extra: &str, jobs: &[(&str, &str)]) -> String {
        let zkey = chain(curve).join("chain.zkey");
        let mut text = format!(
            "apiVersion: proofmill.dev/v1alpha1\nkind: Circuit\nmetadata: {{name: chain}}\nspec:\n  groth16:\n    zkey: \
             {{url: \"file://{}\"}}\n{circuit_extra}",
            zkey.display()
        );
        for (name, spec) in jobs {
            text += &format!(
                "---\napiVersion: proofmill.dev/v1alpha1\nkind: ProofJob\nmetadata: {{name: {name}}}\nspec: {spec}\n"
            );
        }
        let path = self.write("manifest.yaml", text);
        path.to_str().unwrap().to_owned()
    }
}

impl Ran {
    /// Asserts that none of the outputs contains a text.
    #[track_caller]
    pub fn never_says(self, text: &str) -> Self {
        assert!(
            !self.stdout.contains(text) && !self.stderr.contains(text),
            "{text:?} was said\nstdout:\n{}\nstderr:\n{}",
            self.stdout,
            self.stderr
        );
        self
    }
}

/// A manifest of a simulated circuit and jobs `NAME-0`, `NAME-1`, ….
pub fn simulated(name: &str, partitions: u32, milliseconds: u32, jobs: usize) -> String {
    let mut text = format!(
        "apiVersion: proofmill.dev/v1alpha1\nkind: Circuit\nmetadata: {{name: {name}}}\nspec:\n  simulated:\n    partitions: \
         {partitions}\n    bytes: {{key: 1000, workingSet: 1000}}\n    milliseconds: {{msmG1: {milliseconds}}}\n"
    );
    for job in 0..jobs {
        text += &format!(
            "---\napiVersion: proofmill.dev/v1alpha1\nkind: ProofJob\nmetadata: {{name: {name}-{job}}}\n\
             spec: {{circuitRef: {{name: {name}}}, input: {{inline: AAAA}}}}\n"
        );
    }
    text
}
