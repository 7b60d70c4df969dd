//! The last minutes as spans on tracks, written as Chrome/Perfetto JSON.
//!
//! The ring is a list of shared chunks, so that whoever reads it holds the engine's lock for one short copy only; the
//! JSON is written from that copy, as a stream.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use crate::core::WorkerId;
use crate::meter::Usage;

/// Events of one chunk.
const CHUNK: usize = 1024;

/// Chunks kept at most, whatever the window: 256 Ki events, at most some 40 MiB. A proof leaves 20 to 200.
const CHUNKS: usize = 256;

/// Where a span lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Track {
    /// What a device did: kernels and copies.
    Device(usize),
    /// One of a device's two workers.
    Worker(WorkerId),
    /// A synthesis worker.
    Synthesis(usize),
    /// A finalizer.
    Finalizer(usize),
    /// The thread that drops what ended partitions held.
    Releaser,
    /// A thread that loads circuits.
    Loader(usize),
    /// A thread that fetches inputs.
    Fetcher(usize),
    /// A partition, by its ticket.
    Partition(u64),
}

/// The end of an arrow that a span carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// None.
    None,
    /// An arrow with this number begins at the span's end.
    Out(u64),
    /// An arrow with this number ends at the span's begin.
    In(u64),
}

/// A stretch of time on a track.
#[derive(Clone, Debug)]
pub struct Span {
    /// Where.
    pub track: Track,
    /// What.
    pub name: &'static str,
    /// Begin, by the engine's clock.
    pub start: Duration,
    /// End.
    pub end: Duration,
    /// The partition or circuit.
    pub subject: Option<Arc<str>>,
    /// What the thread used.
    pub usage: Option<Usage>,
    /// An arrow.
    pub flow: Flow,
}

/// The bounded ring of the last minutes.
#[derive(Debug)]
pub struct Trace {
    window: Duration,
    full: VecDeque<Arc<Vec<Span>>>,
    last: Vec<Span>,
    marks: Vec<(Duration, String)>,
}

/// A copy of the ring at one instant.
#[derive(Clone, Debug)]
pub struct TraceSnapshot {
    /// Names of the devices, by index.
    pub devices: Vec<String>,
    chunks: Vec<Arc<Vec<Span>>>,
    marks: Vec<(Duration, String)>,
    from: Duration,
}

impl Trace {
    /// A ring over `window`.
    pub const fn new(window: Duration) -> Self {
        Self { window, full: VecDeque::new(), last: Vec::new(), marks: Vec::new() }
    }

    /// Adds a span.
    pub fn push(&mut self, span: Span) {
        let now = span.end;
        self.last.push(span);
        if self.last.len() < CHUNK {
            return;
        }
        let chunk = std::mem::replace(&mut self.last, Vec::with_capacity(CHUNK));
        self.full.push_back(Arc::new(chunk));
        let from = now.saturating_sub(self.window);
        while self.full.len() > CHUNKS || self.full.front().is_some_and(|chunk| chunk.iter().all(|s| s.end < from)) {
            self.full.pop_front();
        }
    }

    /// Adds a mark, such as a version or a change of a setting. Marks are few and are all kept.
    pub fn mark(&mut self, at: Duration, text: String) {
        if self.marks.len() < CHUNK {
            self.marks.push((at, text));
        }
    }

    /// The ring as it is at `now`.
    pub fn snapshot(&self, now: Duration, devices: Vec<String>) -> TraceSnapshot {
        let mut chunks: Vec<_> = self.full.iter().cloned().collect();
        chunks.push(Arc::new(self.last.clone()));
        TraceSnapshot { devices, chunks, marks: self.marks.clone(), from: now.saturating_sub(self.window) }
    }
}

impl TraceSnapshot {
    /// All spans that end within the window, oldest end first (roughly: workers report at their steps' ends).
    pub fn spans(&self) -> impl Iterator<Item = &Span> {
        self.chunks.iter().flat_map(|chunk| chunk.iter()).filter(|span| span.end >= self.from)
    }

    /// Writes Chrome's trace event format, which Perfetto opens.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n")?;
        for (pid, name) in GROUPS {
            metadata(out, "process_name", *pid, 0, name)?;
        }
        // Each track with the subject of its first span: a partition's is its id.
        let mut tracks: BTreeMap<Track, Option<&str>> = BTreeMap::new();
        for span in self.spans() {
            tracks.entry(span.track).or_insert(span.subject.as_deref());
        }
        for (track, subject) in tracks {
            let (pid, tid) = track.place();
            metadata(out, "thread_name", pid, tid, &self.name(track, subject))?;
        }
        for span in self.spans() {
            write_span(out, span)?;
        }
        for (at, text) in &self.marks {
            let text = json(text)?;
            writeln!(out, "{{\"ph\":\"i\",\"s\":\"g\",\"pid\":1,\"tid\":0,\"ts\":{},\"name\":{text}}},", micros(*at))?;
        }
        // A last event without a comma closes the list.
        out.write_all(
            b"{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":0}}\n]}\n",
        )
    }

    fn name(&self, track: Track, subject: Option<&str>) -> String {
        let device = |index: usize| self.devices.get(index).map_or("?", String::as_str);
        match track {
            Track::Device(index) => format!("device {}", device(index)),
            Track::Worker(worker) => format!("{} worker {}", device(worker.device), worker.slot),
            Track::Synthesis(slot) => format!("synthesis {slot}"),
            Track::Finalizer(slot) => format!("finalizer {slot}"),
            Track::Releaser => "releaser".to_owned(),
            Track::Loader(slot) => format!("loader {slot}"),
            Track::Fetcher(slot) => format!("fetcher {slot}"),
            Track::Partition(ticket) => subject.map_or_else(|| format!("partition {ticket}"), str::to_owned),
        }
    }
}

/// The groups of tracks, as "processes" of the trace.
const GROUPS: &[(u64, &str)] =
    &[(1, "devices"), (2, "synthesis"), (3, "finalizers"), (4, "circuits and inputs"), (5, "jobs")];

impl Track {
    /// Process and thread number in the trace.
    const fn place(self) -> (u64, u64) {
        match self {
            Self::Device(index) => (1, index as u64 * 3 + 1),
            Self::Worker(worker) => (1, worker.device as u64 * 3 + worker.slot as u64 + 2),
            Self::Synthesis(slot) => (2, slot as u64 + 1),
            Self::Finalizer(slot) => (3, slot as u64 + 1),
            Self::Releaser => (3, 1001),
            Self::Loader(slot) => (4, slot as u64 + 1),
            Self::Fetcher(slot) => (4, slot as u64 + 101),
            Self::Partition(ticket) => (5, ticket + 1),
        }
    }
}

fn write_span(out: &mut dyn Write, span: &Span) -> io::Result<()> {
    let (pid, tid) = span.track.place();
    let (name, start) = (json(span.name)?, micros(span.start));
    let length = micros(span.end.saturating_sub(span.start));
    write!(
        out,
        "{{\"ph\":\"X\",\"pid\":{pid},\"tid\":{tid},\"ts\":{start},\"dur\":{length},\"name\":{name},\"args\":{{"
    )?;
    let mut comma = "";
    if let Some(subject) = &span.subject {
        write!(out, "\"subject\":{}", json(subject)?)?;
        comma = ",";
    }
    if let Some(Usage { cpu, pool, run_queue, page_faults }) = span.usage {
        let (cpu, pool, run_queue) = (micros(cpu), micros(pool), micros(run_queue));
        write!(
            out,
            "{comma}\"cpu_us\":{cpu},\"pool_cpu_us\":{pool},\"run_queue_us\":{run_queue},\"page_faults\":{page_faults}"
        )?;
    }
    out.write_all(b"}},\n")?;
    match span.flow {
        Flow::None => Ok(()),
        Flow::Out(id) => {
            // Just inside the span, or the viewer finds no slice to bind the arrow to.
            let at = micros(span.end.saturating_sub(Duration::from_nanos(1)).max(span.start));
            writeln!(
                out,
                "{{\"ph\":\"s\",\"pid\":{pid},\"tid\":{tid},\"ts\":{at},\"id\":{id},\"cat\":\"flow\",\"name\":\"partition\"}},"
            )
        }
        Flow::In(id) => writeln!(
            out,
            "{{\"ph\":\"f\",\"bp\":\"e\",\"pid\":{pid},\"tid\":{tid},\"ts\":{start},\"id\":{id},\"cat\":\"flow\",\"name\":\"partition\"}},"
        ),
    }
}

fn metadata(out: &mut dyn Write, what: &str, pid: u64, tid: u64, name: &str) -> io::Result<()> {
    let name = json(name)?;
    writeln!(out, "{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"{what}\",\"args\":{{\"name\":{name}}}}},")
}

/// Microseconds with three decimals: whole nanoseconds, no exponent.
fn micros(time: Duration) -> String {
    let nanos = time.as_nanos();
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
}

fn json(text: &str) -> io::Result<String> {
    serde_json::to_string(text).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(track: Track, start: u64, end: u64, flow: Flow) -> Span {
        Span {
            track,
            name: "synthesis",
            start: Duration::from_micros(start),
            end: Duration::from_micros(end),
            subject: Some("job \"a\"/0/0".into()),
            usage: Some(Usage { cpu: Duration::from_micros(2), page_faults: 7, ..Usage::default() }),
            flow,
        }
    }

    #[test]
    fn the_json_is_valid_and_names_its_tracks() {
        let mut trace = Trace::new(Duration::from_secs(60));
        trace.mark(Duration::ZERO, "proofmill 0.1.0".to_owned());
        trace.push(span(Track::Synthesis(0), 1, 4, Flow::Out(3)));
        trace.push(span(Track::Worker(WorkerId { device: 0, slot: 1 }), 5, 9, Flow::In(3)));
        let mut text = Vec::new();
        trace.snapshot(Duration::from_micros(10), vec!["cpu".to_owned()]).write(&mut text).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let events = value["traceEvents"].as_array().unwrap();
        let spans: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
        assert_eq!(spans.len(), 2);
        assert_eq!(spans[0]["ts"], 1.0);
        assert_eq!(spans[0]["dur"], 3.0);
        assert_eq!(spans[0]["args"]["subject"], "job \"a\"/0/0");
        assert_eq!(spans[0]["args"]["page_faults"], 7);
        assert!(events.iter().any(|e| e["ph"] == "M" && e["args"]["name"] == "cpu worker 1"));
        let (out, into) = (
            events.iter().find(|event| event["ph"] == "s").unwrap(),
            events.iter().find(|event| event["ph"] == "f").unwrap(),
        );
        assert_eq!(out["id"], into["id"]);
        assert!(out["ts"].as_f64().unwrap() < 4.0 && into["ts"] == 5.0);
    }

    #[test]
    fn the_ring_is_bounded_in_number_and_time() {
        let mut trace = Trace::new(Duration::from_secs(1));
        for at in 0..400_000_u64 {
            trace.push(span(Track::Finalizer(0), at, at + 1, Flow::None));
        }
        let count = trace.snapshot(Duration::from_micros(400_000), Vec::new()).spans().count();
        assert!((CHUNK * (CHUNKS - 1)..=CHUNK * (CHUNKS + 1)).contains(&count), "{count}");
        trace.push(span(Track::Finalizer(0), 9_000_000, 9_000_001, Flow::None));
        assert_eq!(trace.snapshot(Duration::from_secs(9), Vec::new()).spans().count(), 1);
    }
}
