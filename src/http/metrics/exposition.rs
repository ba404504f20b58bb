//! The two text formats of `/metrics`: Prometheus' text format 0.0.4 and OpenMetrics 1.0.

use std::fmt::Write as _;

use crate::base::metrics::{Family, FamilyKind, Label, Sample, SampleValue};

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

/// The media type of OpenMetrics, without its parameters.
const OPEN_METRICS: &str = "application/openmetrics-text";

impl Format {
    /// Chooses by an `Accept` header: OpenMetrics only for a client that asks for it and does not
    /// prefer plain text.
    pub fn accepted_by(accept: &str) -> Self {
        let weight = |media_type: &str| {
            let ranges = accept.split(',').filter_map(|range| {
                let mut parts = range.split(';').map(str::trim);
                if !parts.next()?.eq_ignore_ascii_case(media_type) {
                    return None;
                }
                let weight = parts.find_map(|part| part.strip_prefix("q="));
                Some(weight.map_or(1.0, |weight| weight.trim().parse::<f32>().unwrap_or(0.0)))
            });
            ranges.fold(0.0, f32::max)
        };
        let asked = weight(OPEN_METRICS);
        if asked > 0.0 && asked >= weight("text/plain") {
            Format::OpenMetrics
        } else {
            Format::Prometheus
        }
    }

    /// The `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Writes all families, sorted by name.
    pub fn write(self, mut families: Vec<Family>) -> String {
        families.sort_by_key(|family| family.name);
        let mut text = String::with_capacity(16 * 1024);
        for family in families.iter().filter(|family| !family.samples.is_empty()) {
            self.family(&mut text, family);
        }
        if self == Format::OpenMetrics {
            text.push_str("# EOF\n");
        }
        text
    }

    fn family(self, text: &mut String, family: &Family) {
        let Family { name, help, kind, samples } = family;
        let suffix = match kind {
            FamilyKind::Counter => "_total",
            FamilyKind::Info => "_info",
            FamilyKind::Gauge | FamilyKind::Histogram => "",
        };
        // OpenMetrics describes the family, the older format each name of a sample.
        let (described, kind) = match (self, kind) {
            (Format::OpenMetrics, kind) => ("", kind_name(*kind)),
            (Format::Prometheus, FamilyKind::Info) => (suffix, "gauge"),
            (Format::Prometheus, kind) => (suffix, kind_name(*kind)),
        };
        push(text, format_args!("# HELP {name}{described} {}\n", escaped(help, self)));
        push(text, format_args!("# TYPE {name}{described} {kind}\n"));
        for Sample { labels, value } in samples {
            match value {
                SampleValue::Number(number) => {
                    let labels = labelled(labels, None);
                    push(text, format_args!("{name}{suffix}{labels} {number}\n"));
                }
                SampleValue::Distribution { bounds, counts, sum } => {
                    let bounds = bounds.iter().map(|bound| canonical(*bound));
                    for (bound, count) in bounds.chain([String::from("+Inf")]).zip(counts) {
                        let labels = labelled(labels, Some(&bound));
                        push(text, format_args!("{name}_bucket{labels} {count}\n"));
                    }
                    let (labels, count) = (labelled(labels, None), counts.last().unwrap_or(&0));
                    push(text, format_args!("{name}_sum{labels} {sum}\n"));
                    push(text, format_args!("{name}_count{labels} {count}\n"));
                }
            }
        }
    }
}

fn push(text: &mut String, line: std::fmt::Arguments<'_>) {
    text.write_fmt(line).expect("writing to a string does not fail");
}

fn kind_name(kind: FamilyKind) -> &'static str {
    match kind {
        FamilyKind::Counter => "counter",
        FamilyKind::Gauge => "gauge",
        FamilyKind::Histogram => "histogram",
        FamilyKind::Info => "info",
    }
}

/// Bounds have a point also where they are whole, as OpenMetrics requires.
fn canonical(bound: f64) -> String {
    if bound.fract() == 0.0 { format!("{bound:.1}") } else { bound.to_string() }
}

/// Writes labels in braces, with the bound of a bucket as the last; nothing where there is none.
fn labelled(labels: &[Label], bound: Option<&str>) -> String {
    let own = labels.iter().map(|(name, value)| (*name, value.as_ref()));
    let all: Vec<_> = own
        .chain(bound.map(|bound| ("le", bound)))
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value, Format::OpenMetrics)))
        .collect();
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

/// Escapes a text: backslash and line feed, and quotes except in the older format's help.
fn escaped(text: &str, format: Format) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    match format {
        Format::Prometheus => text,
        Format::OpenMetrics => text.replace('"', "\\\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::metrics::{Buckets, Counter, Histogram};

    fn families() -> Vec<Family> {
        static SECONDS: Buckets = Buckets { bounds: &[500_000, 1_000_000], scale: 1_000_000 };
        let (counter, histogram) = (Counter::default(), Histogram::new(&SECONDS));
        counter.add(3);
        histogram.observe(700_000);
        let labels = vec![("version", "1\\2\"3\n".into())];
        let build = Sample { labels, value: SampleValue::Number(1.0) };
        vec![
            Family::histogram("wait_seconds", "Time \"waited\"", &histogram),
            Family::counter("asked", "Asked", &counter),
            Family::gauge("open", "Open", 2.0),
            Family { name: "build", help: "B", kind: FamilyKind::Info, samples: vec![build] },
            Family { name: "none", help: "N", kind: FamilyKind::Gauge, samples: vec![] },
        ]
    }

    #[test]
    fn the_prometheus_format_describes_the_names_of_samples() {
        assert_eq!(
            Format::Prometheus.write(families()),
            "# HELP asked_total Asked\n# TYPE asked_total counter\nasked_total 3\n\
             # HELP build_info B\n# TYPE build_info gauge\nbuild_info{version=\"1\\\\2\\\"3\\n\"} 1\n\
             # HELP open Open\n# TYPE open gauge\nopen 2\n\
             # HELP wait_seconds Time \"waited\"\n# TYPE wait_seconds histogram\n\
             wait_seconds_bucket{le=\"0.5\"} 0\nwait_seconds_bucket{le=\"1.0\"} 1\n\
             wait_seconds_bucket{le=\"+Inf\"} 1\nwait_seconds_sum 0.7\nwait_seconds_count 1\n"
        );
    }

    #[test]
    fn open_metrics_describes_families_and_has_an_end() {
        let text = Format::OpenMetrics.write(families());
        for part in [
            "# TYPE asked counter\nasked_total 3\n",
            "# TYPE build info\nbuild_info{",
            "# HELP wait_seconds Time \\\"waited\\\"\n",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(text.ends_with("\n# EOF\n"));
    }

    #[test]
    fn open_metrics_is_for_those_who_ask_for_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,\
                          text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, format) in [
            ("", Format::Prometheus),
            ("*/*", Format::Prometheus),
            ("text/plain", Format::Prometheus),
            ("application/openmetrics-text", Format::OpenMetrics),
            ("Application/OpenMetrics-Text; version=1.0.0", Format::OpenMetrics),
            ("application/openmetrics-text;q=0", Format::Prometheus),
            ("application/openmetrics-text;q=0.2, text/plain", Format::Prometheus),
            (prometheus, Format::OpenMetrics),
        ] {
            assert_eq!(Format::accepted_by(accept), format, "{accept}");
        }
    }
}
