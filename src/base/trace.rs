//! Where a request stands in a distributed trace (W3C Trace Context, `traceparent`).

use std::fmt;

use bincode::{Decode, Encode};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::from_hex;

/// The trace of a request and the caller's part of it: what its header `traceparent` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TraceParent {
    trace: [u8; 16],
    span: [u8; 8],
    /// As sent: whether the caller records the trace.
    flags: u8,
}

impl TraceParent {
    /// Reads the header. `None` if it is not valid: then it is as if there was none.
    pub fn parse(header: &[u8]) -> Option<Self> {
        let (known, rest) = header.split_at_checked(55)?;
        let known = std::str::from_utf8(known).ok()?;
        let parts: Vec<_> = known.split('-').collect();
        let [version, trace, span, flags] = parts[..] else { return None };
        let [version] = from_hex(version)?;
        // Later versions may add to the end.
        let has_valid_end = rest.is_empty() || (version != 0 && rest[0] == b'-');
        let (trace, span, [flags]) = (from_hex(trace)?, from_hex(span)?, from_hex(flags)?);
        let is_given = trace != [0; 16] && span != [0; 8];
        (version != 0xFF && has_valid_end && is_given).then_some(TraceParent { trace, span, flags })
    }

    /// Begins a trace, which is recorded, with this part of it as the caller of what follows. `None` if an id
    /// is zero.
    pub fn begin(trace: [u8; 16], span: [u8; 8]) -> Option<Self> {
        let is_given = trace != [0; 16] && span != [0; 8];
        is_given.then_some(TraceParent { trace, span, flags: 1 })
    }

    /// The id of the trace, in 32 hexadecimal digits.
    pub fn trace_id(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.trace))
    }

    /// The id of the caller's part, in 16 hexadecimal digits.
    pub fn span_id(&self) -> String {
        format!("{:016x}", u64::from_be_bytes(self.span))
    }

    /// Whether the caller records the trace.
    pub fn is_sampled(&self) -> bool {
        self.flags & 1 == 1
    }

    /// The same trace, of which another part is the caller of what follows.
    pub fn of_span(&self, span: [u8; 8]) -> Self {
        let span = if span == [0; 8] { self.span } else { span };
        TraceParent { span, ..*self }
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (trace, span) = (self.trace_id(), self.span_id());
        // Version 0 knows two flags.
        write!(f, "00-{trace}-{span}-{:02x}", self.flags & 3)
    }
}

impl Serialize for TraceParent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TraceParent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(text.as_bytes()).ok_or_else(|| de::Error::custom("must be a traceparent"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_valid_header_is_passed_on_with_another_span() {
        let parent = TraceParent::parse(VALID.as_bytes()).unwrap();
        assert_eq!(parent.to_string(), VALID);
        assert_eq!(parent.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        let next = parent.of_span([0xA1; 8]).to_string();
        assert_eq!(next, "00-4bf92f3577b34da6a3ce929d0e0e4736-a1a1a1a1a1a1a1a1-01");
        assert_eq!(parent.of_span([0; 8]), parent);
        assert_eq!(parent.span_id(), "00f067aa0ba902b7");
        for (flags, is_sampled) in [("00", false), ("01", true), ("02", false), ("03", true)] {
            let parent = TraceParent::parse(VALID.replace("-01", &format!("-{flags}")).as_bytes());
            assert_eq!(parent.unwrap().is_sampled(), is_sampled, "{flags}");
        }
    }

    #[test]
    fn later_versions_may_have_more_and_are_passed_on_as_this_one() {
        for later in ["cc".to_owned() + &VALID[2..], "cc".to_owned() + &VALID[2..] + "-more"] {
            assert_eq!(TraceParent::parse(later.as_bytes()).unwrap().to_string(), VALID);
        }
        let flags = VALID.replace("-01", "-ff");
        assert!(TraceParent::parse(flags.as_bytes()).unwrap().to_string().ends_with("-03"));
    }

    #[test]
    fn what_is_not_valid_counts_as_none() {
        for invalid in [
            "",
            "00",
            &VALID[..54],
            &(VALID.to_owned() + "-more"),
            &(VALID.to_owned() + " "),
            &("cc".to_owned() + &VALID[2..] + "more"),
            &("ff".to_owned() + &VALID[2..]),
            &VALID.to_uppercase(),
            &VALID.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            &VALID.replace("00f067aa0ba902b7", &"0".repeat(16)),
            &VALID.replace('f', "g"),
            &VALID.replace("-00f0", "00-f0"),
            &VALID.replace("00f0", "\u{e9}0"),
        ] {
            assert_eq!(TraceParent::parse(invalid.as_bytes()), None, "{invalid}");
        }
    }
}
