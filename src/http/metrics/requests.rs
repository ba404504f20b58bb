//! Requests by route and status, with their durations.

use std::time::Duration;

use foldhash::HashMap;

use crate::api::Method;
use crate::base::metrics::{
    Buckets, Counter, Family, FamilyKind, Histogram, Label, Sample, SampleValue,
};

/// Durations in microseconds: reads take some 30 µs, a commit a few milliseconds, a long poll up to
/// 55 s.
static SECONDS: Buckets = Buckets {
    bounds: &[
        250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
        1_000_000, 2_500_000, 10_000_000, 60_000_000,
    ],
    scale: 1_000_000,
};

/// The statuses that are counted apart: all that this server answers with.
const STATUSES: [u16; 20] = [
    200, 202, 303, 304, 400, 401, 403, 404, 405, 408, 409, 412, 413, 414, 415, 429, 431, 500, 502,
    503,
];

/// What was requested, as the metrics and the log name it: a route, never a path, so that the
/// number of names is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// A route of the API.
    Route(Method, &'static str),
    /// A path outside of the API's routes; whether it is posted to.
    Page(bool, &'static str),
    /// Nothing that exists, or a request that was refused before its path was read.
    Unmatched,
}

impl Endpoint {
    /// The method; of a page GET or POST.
    pub fn method(self) -> &'static str {
        match self {
            Endpoint::Route(method, _) => method.as_str(),
            Endpoint::Page(false, _) => "GET",
            Endpoint::Page(true, _) => "POST",
            Endpoint::Unmatched => "any",
        }
    }

    /// The pattern of the path.
    pub fn route(self) -> String {
        match self {
            Endpoint::Route(_, path) => format!("/api{path}"),
            Endpoint::Page(_, path) => path.into(),
            Endpoint::Unmatched => "unmatched".into(),
        }
    }
}

/// The requests to one endpoint.
struct EndpointMeter {
    /// By status, in the order of [`STATUSES`]; at the end those with another one.
    statuses: [Counter; STATUSES.len() + 1],
    durations: Histogram,
    /// Whether its requests may wait for a change, so that their durations say nothing of the server.
    waits: bool,
}

/// What was answered since the start, over all endpoints.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestTotals {
    /// All responses.
    pub answered: u64,
    /// Those with a status of 500 or more.
    pub failed: u64,
    /// The durations by bucket, without those of endpoints whose requests may wait.
    durations: [u64; SECONDS.bounds.len() + 1],
}

impl RequestTotals {
    /// Estimates how long, in seconds, the share `share` of the requests since `earlier` took at
    /// most; `None` if there were none.
    pub fn quantile_since(&self, earlier: &RequestTotals, share: f64) -> Option<f64> {
        let mut counts = self.durations;
        for (count, before) in counts.iter_mut().zip(earlier.durations) {
            *count = count.saturating_sub(before);
        }
        SECONDS.quantile(&counts, share)
    }
}

/// Requests by endpoint. All meters are created at the start, so that counting takes no lock and
/// allocates nothing.
pub struct RequestMeters(HashMap<Endpoint, EndpointMeter>);

impl RequestMeters {
    /// Creates the meters of these routes (method, path, whether its requests may wait) and pages,
    /// and of what is neither.
    pub fn new(
        routes: impl IntoIterator<Item = (Method, &'static str, bool)>,
        pages: impl IntoIterator<Item = &'static str>,
    ) -> Self {
        let routes =
            routes.into_iter().map(|(method, path, waits)| (Endpoint::Route(method, path), waits));
        let pages = pages
            .into_iter()
            .flat_map(|path| [false, true].map(|is_post| (Endpoint::Page(is_post, path), false)));
        let all = routes.chain(pages).chain([(Endpoint::Unmatched, false)]);
        let meter = |waits| EndpointMeter {
            statuses: Default::default(),
            durations: Histogram::new(&SECONDS),
            waits,
        };
        RequestMeters(all.map(|(endpoint, waits)| (endpoint, meter(waits))).collect())
    }

    /// Counts a response.
    pub fn count(&self, endpoint: Endpoint, status: u16, duration: Duration) {
        let Some(meter) = self.0.get(&endpoint).or_else(|| self.0.get(&Endpoint::Unmatched)) else {
            return;
        };
        let known = STATUSES.iter().position(|known| *known == status);
        meter.statuses[known.unwrap_or(STATUSES.len())].add_one();
        meter.durations.observe(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
    }

    /// What was answered so far, over all endpoints.
    pub fn totals(&self) -> RequestTotals {
        let mut totals =
            RequestTotals { answered: 0, failed: 0, durations: [0; SECONDS.bounds.len() + 1] };
        for meter in self.0.values() {
            for (at, counter) in meter.statuses.iter().enumerate() {
                let count = counter.value();
                totals.answered += count;
                if STATUSES.get(at).is_some_and(|status| *status >= 500) {
                    totals.failed += count;
                }
            }
            if !meter.waits {
                meter.durations.add_counts(&mut totals.durations);
            }
        }
        totals
    }

    /// The samples of all endpoints that were requested.
    pub fn families(&self) -> [Family; 2] {
        let mut counts = Vec::new();
        let mut durations = Vec::new();
        let mut meters: Vec<_> = self.0.iter().collect();
        meters.sort_by_key(|(endpoint, _)| (endpoint.route(), endpoint.method()));
        for (endpoint, meter) in meters {
            let labels: [Label; 2] =
                [("method", endpoint.method().into()), ("route", endpoint.route().into())];
            for (at, counter) in meter.statuses.iter().enumerate() {
                let count = counter.value();
                if count > 0 {
                    let status = STATUSES.get(at).map_or("other".into(), u16::to_string);
                    let labels = labels.iter().cloned().chain([("status", status.into())]);
                    let value = SampleValue::Number(count as f64);
                    counts.push(Sample { labels: labels.collect(), value });
                }
            }
            let value = meter.durations.value();
            if matches!(&value, SampleValue::Distribution { counts, .. } if counts.last() > Some(&0))
            {
                durations.push(Sample { labels: labels.to_vec(), value });
            }
        }
        [
            Family {
                name: "roadstead_http_requests",
                help: "Requests answered",
                kind: FamilyKind::Counter,
                samples: counts,
            },
            Family {
                name: "roadstead_http_request_duration_seconds",
                help: "Time from the head of a request to that of its response, waiting included",
                kind: FamilyKind::Histogram,
                samples: durations,
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_route_and_statuses_that_are_not_known_are_counted_together() {
        let meters = RequestMeters::new([(Method::Get, "/teams/{teamId}", false)], ["/healthz"]);
        let route = Endpoint::Route(Method::Get, "/teams/{teamId}");
        meters.count(route, 200, Duration::from_millis(3));
        meters.count(route, 299, Duration::ZERO);
        meters.count(Endpoint::Page(false, "/elsewhere"), 404, Duration::ZERO);
        let [counts, durations] = meters.families();
        let labels = |sample: &Sample| {
            let values: Vec<_> = sample.labels.iter().map(|(_, value)| value.to_string()).collect();
            values.join(" ")
        };
        let counted: Vec<_> = counts.samples.iter().map(labels).collect();
        assert_eq!(
            counted,
            ["GET /api/teams/{teamId} 200", "GET /api/teams/{teamId} other", "any unmatched 404"]
        );
        assert_eq!(durations.samples.len(), 2);
    }

    #[test]
    fn totals_count_every_response_and_the_durations_of_those_that_do_not_wait() {
        let routes = [(Method::Get, "/tools", false), (Method::Get, "/wakes", true)];
        let meters = RequestMeters::new(routes, ["/healthz"]);
        let tools = Endpoint::Route(Method::Get, "/tools");
        meters.count(tools, 200, Duration::from_millis(400));
        let earlier = meters.totals();
        assert_eq!(earlier.quantile_since(&earlier, 0.5), None);
        meters.count(tools, 503, Duration::from_micros(100));
        meters.count(tools, 404, Duration::from_micros(100));
        meters.count(Endpoint::Route(Method::Get, "/wakes"), 200, Duration::from_secs(50));
        meters.count(Endpoint::Page(false, "/healthz"), 200, Duration::from_micros(900));
        let totals = meters.totals();
        assert_eq!((totals.answered - earlier.answered, totals.failed), (4, 1));
        // Two of three within the first bucket, the third in that up to a millisecond.
        assert_eq!(totals.quantile_since(&earlier, 0.5), Some(0.000_187_5));
        assert_eq!(totals.quantile_since(&earlier, 1.0), Some(0.001));
    }
}
