//! Streams of any bytes, as a server of models may send them.

use super::super::attempt::Attempt;
use super::*;

/// Not a beginning of what a corpus has; a server may repeat it.
const KEY: &str = "sk-0123456789abcdef";

/// The APIs whose streams differ, as the first byte of an input chooses among them.
const APIS: [Provider; 4] =
    [Provider::Custom, Provider::Anthropic, Provider::Google, Provider::Ollama];

/// The media types that are read in ways of their own, as the second byte chooses.
const MEDIA_TYPES: [&str; 3] = ["text/event-stream", "application/json", "text/plain"];

/// The answer to a question is the same wherever the pieces of its stream end, what was shown is its text,
/// and no key is in it; parts are those that a reader of the whole stream finds.
///
/// # Panics
/// If that is not so.
pub fn stream(input: &[u8]) {
    let [api, media_type, stream @ ..] = input else { return };
    let api = APIS[usize::from(*api) % APIS.len()];
    let media_type = MEDIA_TYPES[usize::from(*media_type) % MEDIA_TYPES.len()];
    let whole = heard(api, media_type, stream, stream.len());
    for size in [1, 2, 7] {
        assert_eq!(heard(api, media_type, stream, size), whole, "pieces of {size}");
    }
    let (shown, outcome) = whole;
    match outcome {
        Ok(completion) => assert_eq!(completion.text, shown),
        Err(why) => assert!(!why.contains(KEY), "{why}"),
    }
    assert!(!shown.contains(KEY) && shown.len() <= MAX_TEXT_BYTES, "{shown}");
    for framing in [Framing::Events, Framing::Lines] {
        frames(framing, stream);
    }
}

/// What is shown of a stream in pieces of this size, and what comes of it.
fn heard(
    api: Provider,
    media_type: &str,
    stream: &[u8],
    size: usize,
) -> (String, Result<Completion, String>) {
    let attempt = Attempt::short(String::new(), String::new(), 1);
    let provider = LlmProvider::example(api);
    let base = &bases(api, "http://a.test/v1")[0];
    let call = request::call(&provider, base, Some(KEY), &attempt, true);
    let mut of = Conversation::of(api, VecDeque::from([call]), Some(KEY.into()));
    assert!(of.next_call().is_some());
    let headers = vec![("content-type".into(), media_type.into())];
    let head = Response { status: 200, headers, body: Vec::new() };
    let mut shown = String::new();
    let mut is_read = of.hear(Heard::Head(&head), &mut shown);
    for piece in stream.chunks(size.max(1)) {
        is_read = is_read && of.hear(Heard::Piece(piece), &mut shown);
    }
    if is_read {
        of.hear(Heard::End, &mut shown);
    }
    assert!(of.next_call().is_none(), "there is no other place");
    (shown, of.outcome(true))
}

/// Compares the parts of a stream with those that a simple reader finds.
fn frames(framing: Framing, stream: &[u8]) {
    let mut frames = Frames::new(framing);
    let mut parts = Vec::new();
    for piece in stream.chunks(3) {
        parts.extend(frames.push(piece).expect("it is short"));
    }
    parts.extend(frames.end().expect("it is short"));
    assert_eq!(parts, expected(framing, stream));
}

fn expected(framing: Framing, stream: &[u8]) -> Vec<Vec<u8>> {
    let stream = stream.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(stream);
    // Each end of a line becomes the same one.
    let mut text = Vec::new();
    for (at, byte) in stream.iter().enumerate() {
        match byte {
            b'\n' if at > 0 && stream[at - 1] == b'\r' => {}
            b'\r' => text.push(b'\n'),
            byte => text.push(*byte),
        }
    }
    let lines = text.split(|byte| *byte == b'\n');
    if framing == Framing::Lines {
        return lines.filter(|line| !line.trim_ascii().is_empty()).map(<[u8]>::to_vec).collect();
    }
    let (mut events, mut data): (Vec<Vec<u8>>, Vec<&[u8]>) = (Vec::new(), Vec::new());
    for line in lines.chain([&[][..]]) {
        match line.strip_prefix(b"data:") {
            Some(value) => data.push(value.strip_prefix(b" ").unwrap_or(value)),
            None if line.is_empty() => events.push(std::mem::take(&mut data).join(&b'\n')),
            None => {}
        }
    }
    events.retain(|event| !event.trim_ascii().is_empty());
    events
}
