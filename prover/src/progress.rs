//! What a user sees while jobs are proved: bars on a terminal, plain lines elsewhere, JSON lines for machines.

use std::collections::BTreeMap;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use proofmill_engine::engine::PartitionEvent;
use proofmill_engine::job::PartitionState;
use serde_json::json;

/// Bars for at most this many jobs at a time; a terminal has few lines.
const BARS: usize = 8;

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Bars, redrawn in place on stderr.
    Bars,
    /// A line per change on stderr.
    Lines,
    /// A JSON object per change on stdout.
    Json,
}

impl Form {
    /// The form that suits: JSON when asked for, bars on a terminal, lines elsewhere.
    pub fn choose(json: bool) -> Self {
        use std::io::IsTerminal as _;
        match (json, std::io::stderr().is_terminal()) {
            (true, _) => Self::Json,
            (false, true) => Self::Bars,
            (false, false) => Self::Lines,
        }
    }
}

/// Shows the changes of jobs as they come.
pub struct Progress {
    form: Form,
    screen: MultiProgress,
    overall: Option<ProgressBar>,
    bars: BTreeMap<String, ProgressBar>,
    loads: BTreeMap<String, ProgressBar>,
    last: BTreeMap<String, PartitionState>,
}

impl Progress {
    /// For `jobs` jobs.
    pub fn new(form: Form, jobs: usize) -> Self {
        let screen = MultiProgress::new();
        let overall = (form == Form::Bars && jobs > 1).then(|| {
            let bar = screen.add(ProgressBar::new(jobs as u64));
            bar.set_style(style("{pos}/{len} jobs {wide_bar} {elapsed}"));
            bar.tick();
            bar
        });
        Self { form, screen, overall, bars: BTreeMap::new(), loads: BTreeMap::new(), last: BTreeMap::new() }
    }

    /// Shows one event of `job`, which proves with `circuit`.
    pub fn show(&mut self, job: &str, circuit: &str, event: &PartitionEvent) {
        let changed = self.last.insert(job.to_owned(), event.state) != Some(event.state);
        match self.form {
            Form::Bars => self.show_bars(job, circuit, event),
            Form::Lines if changed && !event.state.is_final() => {
                eprintln!("{:>9} {job}: {}", seconds(event.at), words(event.state));
            }
            Form::Lines => {}
            Form::Json => {
                let mut line = json!({
                    "event": "state", "job": job, "circuit": circuit,
                    "state": event.state, "milliseconds": event.at.as_millis() as u64,
                });
                if let Some((done, total)) = event.progress {
                    line["bytesDone"] = done.into();
                    line["bytesTotal"] = total.into();
                }
                if changed || event.progress.is_some() {
                    println!("{line}");
                }
            }
        }
    }

    /// Prints a line of the result above the bars.
    pub fn line(&self, text: &str) {
        self.screen.suspend(|| println!("{text}"));
    }

    /// Takes the bars away.
    pub fn finish(&mut self) {
        for bar in std::mem::take(&mut self.bars).into_values().chain(std::mem::take(&mut self.loads).into_values()) {
            bar.finish_and_clear();
        }
        if let Some(bar) = self.overall.take() {
            bar.finish_and_clear();
        }
    }

    fn show_bars(&mut self, job: &str, circuit: &str, event: &PartitionEvent) {
        if let (PartitionState::LoadingKey, Some((done, total))) = (event.state, event.progress) {
            let bar = self.loads.entry(circuit.to_owned()).or_insert_with(|| {
                let bar = self.screen.add(ProgressBar::new(total));
                bar.set_style(style("key {prefix} {wide_bar} {binary_bytes}/{binary_total_bytes} {eta}"));
                bar.set_prefix(circuit.to_owned());
                bar
            });
            bar.set_length(total);
            bar.set_position(done);
            return;
        }
        if event.state > PartitionState::LoadingKey
            && let Some(bar) = self.loads.remove(circuit)
        {
            bar.finish_and_clear();
        }
        if event.state.is_final() {
            if let Some(bar) = self.bars.remove(job) {
                bar.finish_and_clear();
            }
            if let Some(overall) = &self.overall {
                overall.inc(1);
            }
        } else if self.bars.contains_key(job) || (event.state != PartitionState::Queued && self.bars.len() < BARS) {
            let bar = self.bars.entry(job.to_owned()).or_insert_with(|| {
                let bar = self.screen.add(ProgressBar::new_spinner());
                bar.set_style(style("{spinner} {prefix}: {msg} {elapsed}"));
                bar.set_prefix(job.to_owned());
                bar.enable_steady_tick(Duration::from_millis(100));
                bar
            });
            bar.set_message(words(event.state));
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates above are fixed and right; the default would do no harm.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// A state in words.
const fn words(state: PartitionState) -> &'static str {
    match state {
        PartitionState::Queued => "queued",
        PartitionState::FetchingInput => "fetching the input",
        PartitionState::LoadingKey => "loading the key",
        PartitionState::MemoryBudget => "waiting for memory",
        PartitionState::Synthesis => "synthesis",
        PartitionState::DeviceQueue => "waiting for the device",
        PartitionState::Proving => "proving",
        PartitionState::Finishing => "finishing and verifying",
        PartitionState::Succeeded => "succeeded",
        PartitionState::Failed => "failed",
        PartitionState::Cancelled => "cancelled",
    }
}

/// A duration as people read it: `83 ms`, `2.41 s`, `12 min 3 s`.
pub fn seconds(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    match milliseconds {
        0..1_000 => format!("{milliseconds} ms"),
        1_000..120_000 => format!("{:.2} s", duration.as_secs_f64()),
        _ => format!("{} min {} s", milliseconds / 60_000, milliseconds / 1_000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_for_people() {
        assert_eq!(seconds(Duration::from_micros(83_400)), "83 ms");
        assert_eq!(seconds(Duration::from_millis(2_412)), "2.41 s");
        assert_eq!(seconds(Duration::from_millis(119_999)), "120.00 s");
        assert_eq!(seconds(Duration::from_secs(723)), "12 min 3 s");
    }
}
