//! What a metric is.

use std::fmt::Write as _;

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Names of its labels, in order; empty for info metrics, whose labels are their content.
    pub labels: &'static [&'static str],
    /// Unit of its value.
    pub unit: &'static str,
    /// Meaning, as `# HELP` says it.
    pub help: &'static str,
    /// Values of labels and what to use it for, in Markdown.
    pub notes: &'static str,
}

/// Prometheus's types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size.
    Histogram,
}

/// Declares a constant for each metric, and `CATALOGUE` with all of them in the order of the exposition.
#[macro_export]
macro_rules! catalogue {
    ($($id:ident = $kind:ident $name:literal [$($label:literal),*] $unit:literal, $help:literal, $notes:literal;)*) => {
        $(
            #[doc = $help]
            pub const $id: $crate::Definition = $crate::Definition {
                name: $name,
                kind: $crate::Kind::$kind,
                labels: &[$($label),*],
                unit: $unit,
                help: $help,
                notes: $notes,
            };
        )*
        /// All of them, in the order of the exposition.
        pub const CATALOGUE: &[$crate::Definition] = &[$($id),*];
    };
}

/// The reference of a catalogue: a table in Markdown.
pub fn table(catalogue: &[Definition]) -> String {
    let mut text = String::from("| name | type | labels | unit | meaning |\n|---|---|---|---|---|\n");
    for metric in catalogue {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let labels = metric.labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        let (name, unit, help) = (metric.name, metric.unit, metric.help);
        let notes = if metric.notes.is_empty() { String::new() } else { format!(" {}", metric.notes) };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| `{name}` | {kind} | {labels} | {unit} | {help}{notes} |");
    }
    text
}
