//! Families of series, and how they are written.

use prometheus::TextEncoder;
use prometheus::proto::{Bucket, Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

use crate::catalogue::{Definition, Kind};

/// The metrics cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the metrics: {0}")]
pub struct RenderError(#[from] prometheus::Error);

/// Families under construction, in the order in which they are added.
#[derive(Default)]
pub struct Families(Vec<MetricFamily>);

/// Counts by size.
#[derive(Clone, Copy, Debug)]
pub struct Histogram<'a> {
    /// Upper bounds of all buckets but the last, which has none.
    pub bounds: &'a [f64],
    /// How many fell into each bucket, those below it not included.
    pub buckets: &'a [u64],
    /// Sum of all that was observed.
    pub sum: f64,
}

impl Families {
    /// A series of value 1 whose labels are the information.
    pub fn infos(&mut self, definition: &Definition, labels: &[(&str, &str)]) {
        let mut metric = Metric::from_label(labels.iter().map(|(name, value)| pair(name, value)).collect());
        let mut gauge = Gauge::default();
        gauge.set_value(1.0);
        metric.set_gauge(gauge);
        self.push(definition, vec![metric]);
    }

    /// Counters or gauges, as the definition says.
    pub fn values<'a, const N: usize>(
        &mut self,
        definition: &Definition,
        series: impl IntoIterator<Item = ([&'a str; N], f64)>,
    ) {
        let metrics = series.into_iter().map(|(values, value)| {
            let mut metric = labelled(definition, values);
            if definition.kind == Kind::Counter {
                let mut counter = Counter::default();
                counter.set_value(value);
                metric.set_counter(counter);
            } else {
                let mut gauge = Gauge::default();
                gauge.set_value(value);
                metric.set_gauge(gauge);
            }
            metric
        });
        self.push(definition, metrics.collect());
    }

    /// Histograms.
    pub fn histograms<'a, const N: usize>(
        &mut self,
        definition: &Definition,
        series: impl IntoIterator<Item = ([&'a str; N], Histogram<'a>)>,
    ) {
        let metrics = series.into_iter().map(|(values, histogram)| {
            let mut metric = labelled(definition, values);
            metric.set_histogram(cumulative(histogram));
            metric
        });
        self.push(definition, metrics.collect());
    }

    /// Prometheus's text format. Families without any series are left out: the encoder refuses them.
    pub fn text(mut self) -> Result<String, RenderError> {
        self.0.retain(|family| !family.get_metric().is_empty());
        Ok(TextEncoder::new().encode_to_string(&self.0)?)
    }

    fn push(&mut self, definition: &Definition, metrics: Vec<Metric>) {
        let mut family = MetricFamily::default();
        family.set_name(definition.name.to_owned());
        family.set_help(definition.help.to_owned());
        family.set_field_type(match definition.kind {
            Kind::Counter => MetricType::COUNTER,
            Kind::Gauge => MetricType::GAUGE,
            Kind::Histogram => MetricType::HISTOGRAM,
        });
        family.set_metric(metrics);
        self.0.push(family);
    }
}

fn labelled<const N: usize>(definition: &Definition, values: [&str; N]) -> Metric {
    Metric::from_label(definition.labels.iter().zip(values).map(|(name, value)| pair(name, value)).collect())
}

fn pair(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    pair.set_value(value.to_owned());
    pair
}

/// Prometheus's buckets count everything below them too; the encoder adds `+Inf`.
fn cumulative(histogram: Histogram<'_>) -> prometheus::proto::Histogram {
    let mut out = prometheus::proto::Histogram::default();
    let mut below = 0;
    let buckets = histogram.bounds.iter().zip(histogram.buckets).map(|(bound, count)| {
        below += count;
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(*bound);
        bucket.set_cumulative_count(below);
        bucket
    });
    out.set_bucket(buckets.collect());
    out.set_sample_count(histogram.buckets.iter().sum());
    out.set_sample_sum(histogram.sum);
    out
}
