//! Each API as it streams, wherever its pieces end, and servers that mean no good.

use serde_json::json;

use super::super::attempt::DEFAULT_ATTEMPT_TOKENS;
use super::super::provider::Provider;
use super::*;
use crate::outside::Failure;

const KEY: &str = "sk-0123456789abcdef";

/// A conversation at these places.
fn conversation(api: Provider, places: usize) -> Conversation {
    let attempt = Attempt {
        system: None,
        message: "Hello".into(),
        model: None,
        max_tokens: DEFAULT_ATTEMPT_TOKENS,
        temperature: None,
        total_secs: 1,
    };
    let base = &bases(api, "http://a.test/v1")[0];
    let provider = LlmProvider::example(api);
    let call = || request::call(&provider, base, Some(KEY), &attempt, true);
    Conversation::of(api, (0..places).map(|_| call()).collect(), Some(KEY.into()))
}

fn head(status: u16, media_type: &str) -> Response {
    let headers = vec![("content-type".into(), media_type.into())];
    Response { status, headers, body: Vec::new() }
}

/// Has one call answered in pieces of this size; returns the text that was shown.
fn answer(of: &mut Conversation, head: &Response, body: &[u8], size: usize) -> String {
    assert!(of.next_call().is_some());
    let mut shown = String::new();
    let mut is_read = of.hear(Heard::Head(head), &mut shown);
    for piece in body.chunks(size.max(1)) {
        if !is_read {
            return shown;
        }
        is_read = of.hear(Heard::Piece(piece), &mut shown);
    }
    if is_read {
        of.hear(Heard::End, &mut shown);
    }
    shown
}

/// What comes of one answer that is a stream.
fn streamed(api: Provider, body: &str) -> Result<Completion, String> {
    let mut of = conversation(api, 1);
    let media_type =
        if api == Provider::Ollama { "application/x-ndjson" } else { "text/event-stream" };
    answer(&mut of, &head(200, media_type), body.as_bytes(), 7);
    of.outcome(true)
}

const OPENAI: &str = "\
data: {\"id\":\"1\",\"model\":\"m-1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}],\"usage\":null}

: OPENROUTER PROCESSING

data: {\"id\":\"1\",\"model\":\"m-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Good \"}}]}

data: {\"id\":\"1\",\"model\":\"m-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"mörning 😀\"}}]}

data: {\"id\":\"1\",\"model\":\"m-1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}

data: {\"id\":\"1\",\"model\":\"m-1\",\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}

data: [DONE]

";

const ANTHROPIC: &str = "\
event: message_start
data: {\"type\":\"message_start\",\"message\":{\"model\":\"m-1\",\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}

event: content_block_start
data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}

event: ping
data: {\"type\": \"ping\"}

event: content_block_delta
data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}}

event: content_block_delta
data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Good \"}}

event: content_block_delta
data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"mörning 😀\"}}

event: message_delta
data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"stop\"},\"usage\":{\"output_tokens\":4}}

event: message_stop
data: {\"type\":\"message_stop\"}

";

const GOOGLE: &str = "\
data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"hm\",\"thought\":true}]}}],\"modelVersion\":\"m-1\"}\r\n\r
data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"Good \"}]}}],\"modelVersion\":\"m-1\"}\r\n\r
data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"mörning 😀\"}]},\"finishReason\":\"stop\"}],\"usageMetadata\":{\"promptTokenCount\":3,\"candidatesTokenCount\":4},\"modelVersion\":\"m-1\"}\r\n\r
";

const OLLAMA: &str = "\
{\"model\":\"m-1\",\"message\":{\"role\":\"assistant\",\"content\":\"Good \"},\"done\":false}
{\"model\":\"m-1\",\"message\":{\"role\":\"assistant\",\"content\":\"mörning 😀\"},\"done\":false}
{\"model\":\"m-1\",\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done_reason\":\"stop\",\"done\":true,\"prompt_eval_count\":3,\"eval_count\":4}
";

#[test]
fn the_stream_of_each_api_is_read_wherever_its_pieces_end() {
    for (api, media_type, body) in [
        (Provider::Openai, "text/event-stream", OPENAI),
        (Provider::Openrouter, "text/event-stream; charset=utf-8", OPENAI),
        (Provider::Custom, "Text/Event-Stream", OPENAI),
        (Provider::Custom, "text/plain", OPENAI),
        (Provider::Anthropic, "text/event-stream", ANTHROPIC),
        (Provider::Google, "text/event-stream", GOOGLE),
        (Provider::Ollama, "application/x-ndjson", OLLAMA),
        (Provider::Ollama, "application/json", OLLAMA),
    ] {
        for size in 1..=body.len() {
            let mut of = conversation(api, 1);
            let shown = answer(&mut of, &head(200, media_type), body.as_bytes(), size);
            assert_eq!(shown, "Good mörning 😀", "{api:?} in pieces of {size}");
            let whole = Completion {
                text: shown,
                model: Some("m-1".into()),
                stop_reason: Some("stop".into()),
                input_tokens: Some(3),
                output_tokens: Some(4),
                cached_tokens: None,
            };
            assert_eq!(of.outcome(true), Ok(whole), "{api:?} in pieces of {size}");
            assert!(of.next_call().is_none());
        }
    }
}

#[test]
fn an_answer_at_once_is_read_although_a_stream_was_asked_for() {
    let body = json!({"model": "m-1", "choices": [{"message": {"content": "ok"},
        "finish_reason": "length"}], "usage": {"prompt_tokens": 3, "completion_tokens": 4}});
    let mut of = conversation(Provider::Custom, 1);
    let shown = answer(&mut of, &head(200, "application/json"), body.to_string().as_bytes(), 5);
    assert_eq!(shown, "ok");
    let completion = of.outcome(true).unwrap();
    assert_eq!(
        (completion.stop_reason.as_deref(), completion.output_tokens),
        (Some("length"), Some(4))
    );
}

#[test]
fn what_broke_off_is_no_answer_and_what_was_counted_is_known() {
    for (api, body) in [
        (Provider::Custom, OPENAI),
        (Provider::Anthropic, ANTHROPIC),
        (Provider::Google, GOOGLE),
        (Provider::Ollama, OLLAMA),
    ] {
        let end = body.find("mörning").unwrap();
        let why = streamed(api, &body[..body[..end].rfind('\n').unwrap() + 1]).unwrap_err();
        assert!(why.contains("broke off"), "{api:?}: {why}");
    }
    let mut of = conversation(Provider::Anthropic, 1);
    of.next_call();
    let mut shown = String::new();
    of.hear(Heard::Head(&head(200, "text/event-stream")), &mut shown);
    of.hear(Heard::Piece(&ANTHROPIC.as_bytes()[..ANTHROPIC.find("mörning").unwrap()]), &mut shown);
    assert_eq!((of.so_far().input_tokens, shown.as_str()), (Some(3), "Good "));
    assert!(of.outcome(true).unwrap_err().contains("broken off"));
    let failure = Failure::TimedOut { host: "a.test".into(), after: std::time::Duration::ZERO };
    of.hear(Heard::Failed(&failure), &mut shown);
    assert_eq!(of.outcome(true), Err(failure.to_string()));
    assert!(of.next_call().is_none(), "another place is not tried for it");
}

#[test]
fn an_error_within_an_answer_is_said_without_the_key() {
    let error = format!("Incorrect key {KEY}, see the documentation");
    for (api, body) in [
        (Provider::Custom, json!({"error": {"message": error}})),
        (Provider::Anthropic, json!({"type": "error", "error": {"type": "x", "message": error}})),
        (Provider::Google, json!({"error": {"code": 400, "message": error}})),
        (Provider::Ollama, json!({"error": error})),
    ] {
        let line =
            if api == Provider::Ollama { format!("{body}\n") } else { format!("data: {body}\n\n") };
        for before in [true, false] {
            let first = match api {
                Provider::Custom => &OPENAI[..OPENAI.find(": OPENROUTER").unwrap()],
                Provider::Anthropic => &ANTHROPIC[..ANTHROPIC.find("event: content").unwrap()],
                Provider::Google => &GOOGLE[..GOOGLE.find("\r\n\r\n").unwrap() + 4],
                _ => &OLLAMA[..OLLAMA.find('\n').unwrap() + 1],
            };
            let why =
                streamed(api, &format!("{}{line}", if before { first } else { "" })).unwrap_err();
            assert!(why.contains("Incorrect key …"), "{api:?}: {why}");
            assert!(!why.contains("0123456789"), "{api:?}: {why}");
        }
    }
    let mut of = conversation(Provider::Custom, 1);
    let body = json!({"error": {"message": error}}).to_string();
    answer(&mut of, &head(200, "application/json"), body.as_bytes(), 9);
    assert!(of.outcome(true).unwrap_err().contains("Incorrect key …"));
    // What a provider says is not for every member.
    assert_eq!(of.outcome(false), Err(REFUSED.into()));
}

#[test]
fn a_key_that_a_server_repeats_in_its_text_is_never_shown() {
    let mut body = String::new();
    for part in ["Your key is ", "sk-01234", "56789abc", "def", ", is it?"] {
        body += &format!("data: {}\n\n", json!({"choices": [{"delta": {"content": part}}]}));
    }
    body += &format!(
        "data: {}\n\ndata: [DONE]\n\n",
        json!({"model": KEY, "choices": [{"finish_reason": KEY}]})
    );
    for size in [1, 3, 50, body.len()] {
        let mut of = conversation(Provider::Custom, 1);
        let shown = answer(&mut of, &head(200, "text/event-stream"), body.as_bytes(), size);
        assert_eq!(shown, "Your key is …, is it?");
        let whole = of.outcome(true).unwrap();
        assert_eq!(whole.text, shown);
        assert_eq!((whole.model.as_deref(), whole.stop_reason.as_deref()), (Some("…"), Some("…")));
    }
}

#[test]
fn what_is_no_api_is_said_and_another_place_is_tried() {
    let deep = format!("data: {}\n\n", "[".repeat(100_000));
    let bad: &[(&str, &[u8])] = &[
        ("text/html", b"<html><body>Welcome</body></html>"),
        ("text/event-stream", b""),
        ("text/event-stream", b": only\n\n: comments\n\n"),
        ("text/event-stream", b"data: {}\n\n"),
        ("text/event-stream", b"data: [DONE]\n\n"),
        ("text/event-stream", b"data: {\"choices\":1}\n\n"),
        ("text/event-stream", b"data: \xff\xfe\n\n"),
        ("text/event-stream", deep.as_bytes()),
        ("application/json", b"[]"),
        ("application/json", b"{\"choices\":[]}"),
        ("application/json", b"\xff"),
        ("image/png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
    ];
    for (media_type, body) in bad {
        let mut of = conversation(Provider::Custom, 2);
        assert_eq!(answer(&mut of, &head(200, media_type), body, 11), "");
        let shown = answer(&mut of, &head(200, "text/event-stream"), OPENAI.as_bytes(), 100);
        assert_eq!(
            (shown.as_str(), of.outcome(true).is_ok()),
            ("Good mörning 😀", true),
            "{media_type}"
        );

        let mut of = conversation(Provider::Custom, 1);
        answer(&mut of, &head(200, media_type), body, 11);
        let why = of.outcome(true).unwrap_err();
        assert!(why.contains("check baseUrl"), "{media_type}: {why}");
        assert!(of.next_call().is_none());
    }
}

#[test]
fn an_error_status_says_what_to_do_and_what_the_server_says() {
    for (status, word) in [
        (301, "redirects"),
        (400, "config.model"),
        (401, "another apiKey"),
        (429, "later"),
        (503, "later"),
    ] {
        let mut of = conversation(Provider::Openai, 2);
        let body = json!({"error": {"message": format!("no {KEY}")}}).to_string();
        assert_eq!(answer(&mut of, &head(status, "application/json"), body.as_bytes(), 4), "");
        let why = of.outcome(true).unwrap_err();
        assert!(why.contains(word) && why.ends_with("it says: \"no …\""), "{why}");
        assert!(of.next_call().is_none());
    }
    // Not found: the API may be at the other place; of two, the one that speaks as an API counts.
    for api_first in [true, false] {
        let mut of = conversation(Provider::Custom, 2);
        for is_api in [api_first, !api_first] {
            let body =
                if is_api { "{\"error\":{\"message\":\"no such model\"}}" } else { "<html>" };
            answer(&mut of, &head(404, "application/json"), body.as_bytes(), 4);
        }
        assert!(of.outcome(true).unwrap_err().contains("no such model"));
    }
}

#[test]
fn a_text_an_event_and_an_error_without_end_are_given_up() {
    let mut of = conversation(Provider::Custom, 2);
    let part =
        format!("data: {}\n\n", json!({"choices": [{"delta": {"content": "x".repeat(1000)}}]}));
    let shown =
        answer(&mut of, &head(200, "text/event-stream"), part.repeat(2000).as_bytes(), 4096);
    assert!(shown.len() <= MAX_TEXT_BYTES + 1000, "{}", shown.len());
    assert!(of.outcome(true).unwrap_err().contains("too long"));
    assert!(of.next_call().is_none());

    let endless = format!("data: {}", "x".repeat(3 << 20));
    let why = {
        let mut of = conversation(Provider::Custom, 1);
        answer(&mut of, &head(200, "text/event-stream"), endless.as_bytes(), 4096);
        of.outcome(true).unwrap_err()
    };
    assert!(why.contains("too long"), "{why}");
    for (status, media_type) in [(500, "text/plain"), (200, "application/json")] {
        let mut of = conversation(Provider::Custom, 1);
        let body = vec![b'x'; 3 << 20];
        of.next_call();
        of.hear(Heard::Head(&head(status, media_type)), &mut String::new());
        let read =
            body.chunks(4096).take_while(|piece| of.hear(Heard::Piece(piece), &mut String::new()));
        let read = read.count() * 4096;
        assert!(read <= MAX_TEXT_BYTES, "{status}: {read}");
        assert!(of.outcome(true).is_err());
    }
}

#[test]
fn a_flood_of_tiny_events_and_of_lines_ends_in_time() {
    for (api, tiny) in [
        (Provider::Custom, "data:\n\n"),
        (Provider::Custom, "data: {}\n\n"),
        (Provider::Custom, "\n"),
        (Provider::Custom, ":\n"),
        (Provider::Custom, "data: {\"choices\":[]}\n\n"),
        (Provider::Anthropic, "data: {\"type\":\"ping\"}\n\n"),
        (Provider::Ollama, "\n"),
        (Provider::Ollama, "{}\n"),
        (Provider::Ollama, "{\"message\":{\"content\":\"\"}}\n"),
    ] {
        let mut of = conversation(api, 1);
        of.next_call();
        of.hear(Heard::Head(&head(200, "text/event-stream")), &mut String::new());
        // Near the end, for the time of this test.
        let left = 1 << 20;
        of.read = Some(MAX_STREAM_BYTES - left);
        let piece = tiny.repeat(65_536 / tiny.len());
        let most = left / piece.len() + 2;
        let mut shown = String::new();
        let read =
            (0..most).take_while(|_| of.hear(Heard::Piece(piece.as_bytes()), &mut shown)).count();
        assert!(read < most, "{tiny:?} is read without end");
        assert_eq!(shown, "", "{tiny:?}");
        assert!(of.outcome(true).is_err(), "{tiny:?}");
    }
}

#[test]
fn a_character_that_is_cut_in_two_is_whole_and_one_that_never_ends_is_no_answer() {
    let part = json!({"choices": [{"delta": {"content": "ä€😀"}, "finish_reason": "stop"}]});
    let whole = format!("data: {part}\n\n");
    for size in 1..5 {
        let mut of = conversation(Provider::Custom, 1);
        let shown = answer(&mut of, &head(200, "text/event-stream"), whole.as_bytes(), size);
        assert_eq!((shown.as_str(), of.outcome(true).is_ok()), ("ä€😀", true), "{size}");
    }
    // Its last byte is that of another character.
    let mut broken = whole.into_bytes();
    let at = broken.iter().rposition(|byte| *byte >= 0x80).unwrap();
    broken[at] = b'x';
    let mut of = conversation(Provider::Custom, 1);
    assert_eq!(answer(&mut of, &head(200, "text/event-stream"), &broken, 3), "");
    assert!(of.outcome(true).is_err());
}

#[test]
fn any_bytes_of_a_stream_end_in_an_answer_or_an_error() {
    for (api, body) in
        [(Provider::Custom, OPENAI), (Provider::Anthropic, ANTHROPIC), (Provider::Ollama, OLLAMA)]
    {
        for at in 0..body.len() {
            let mut bytes = body.as_bytes().to_vec();
            bytes[at] ^= 0x15;
            let mut of = conversation(api, 1);
            answer(&mut of, &head(200, "text/event-stream"), &bytes, 64);
            let (Ok(_) | Err(_)) = of.outcome(true);
            assert!(of.end.is_some(), "{at}");
        }
    }
}

fn timed_out() -> Failure {
    Failure::TimedOut { host: "a.test".into(), after: std::time::Duration::from_secs(1) }
}

#[test]
fn what_fails_after_its_end_was_said_is_an_answer_and_before_it_is_none() {
    let end = OPENAI.find("data: {\"id\":\"1\",\"model\":\"m-1\",\"choices\":[],").unwrap();
    for (length, is_answer) in [(end, true), (end / 2, false)] {
        let mut of = conversation(Provider::Custom, 1);
        let mut shown = String::new();
        of.next_call();
        of.hear(Heard::Head(&head(200, "text/event-stream")), &mut shown);
        assert!(of.hear(Heard::Piece(&OPENAI.as_bytes()[..length]), &mut shown));
        assert!(!of.hear(Heard::Failed(&timed_out()), &mut shown));
        assert_eq!(of.outcome(true).is_ok(), is_answer, "{:?}", of.outcome(true));
    }
}

#[test]
fn an_empty_word_for_why_an_answer_ended_is_no_end() {
    let part = json!({"choices": [{"delta": {"content": "Good"}, "finish_reason": ""}]});
    let why = streamed(Provider::Custom, &format!("data: {part}\n\n")).unwrap_err();
    assert_eq!(why, BROKEN_OFF);
}

#[test]
fn of_a_place_where_the_api_is_not_nothing_is_told() {
    let mut of = conversation(Provider::Custom, 2);
    assert!(of.is_to_begin());
    let elsewhere = json!({"model": "other", "usage": {"prompt_tokens": 9}});
    answer(
        &mut of,
        &head(200, "text/event-stream"),
        format!("data: {elsewhere}\n\n").as_bytes(),
        9,
    );
    assert!(!of.is_to_begin());
    let part = json!({"choices": [{"delta": {"content": "Good"}, "finish_reason": "stop"}]});
    answer(&mut of, &head(200, "text/event-stream"), format!("data: {part}\n\n").as_bytes(), 9);
    let whole = of.outcome(true).unwrap();
    assert_eq!((whole.text.as_str(), whole.model, whole.input_tokens), ("Good", None, None));
}

#[test]
fn two_places_are_read_no_further_than_one() {
    let mut of = conversation(Provider::Custom, 2);
    let sign_of_life = b": alive\n\n".repeat(1024);
    let mut read = 0;
    for _ in 0..2 {
        of.next_call();
        of.hear(Heard::Head(&head(200, "text/event-stream")), &mut String::new());
        // At the second place it goes on for as long as it is read.
        let most = if of.calls.is_empty() { 2 * MAX_STREAM_BYTES } else { MAX_STREAM_BYTES / 2 };
        while read < most {
            read += sign_of_life.len();
            if !of.hear(Heard::Piece(&sign_of_life), &mut String::new()) {
                break;
            }
        }
        if of.end.is_none() {
            of.hear(Heard::End, &mut String::new());
        }
    }
    assert!(read <= MAX_STREAM_BYTES + sign_of_life.len(), "{read}");
    assert!(of.outcome(true).unwrap_err().contains("too long"));
}
