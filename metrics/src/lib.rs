//! Metrics of an engine and of the operator: a catalogue says what each of them is called and means, [`Families`] are filled
//! from what is known at one instant and written in Prometheus's text format, and the reference in `docs/metrics.md` is made
//! from the same catalogue.
//!
//! Values are taken from where they are kept anyway when somebody asks: nothing is counted twice, and a hot path has no
//! metric to update.

mod catalogue;
mod families;

pub use catalogue::{Definition, Kind, table};
pub use families::{Families, Histogram, RenderError};
