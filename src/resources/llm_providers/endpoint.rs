//! Where the API of a provider is: its `baseUrl` as the documents of vendors give it, with the version
//! of the API or without, or with the path of a request (reference: agents, "LLM providers").

use super::provider::Provider;

/// The beginning of the URLs of an API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    url: String,
    /// What was added to `baseUrl`, which had no version.
    pub added: Option<&'static str>,
}

impl Base {
    /// Returns the URL of a path of the API. The query of the base stays (some gateways require a
    /// version in it).
    pub fn join(&self, path: &str) -> String {
        match self.url.split_once('?') {
            None => format!("{}{path}", self.url),
            Some((base, query)) => format!("{base}{path}?{query}"),
        }
    }
}

/// Returns the bases that a `baseUrl` can mean, the likeliest first: itself, and, unless it ends with a
/// version, the same with one. Which of them it is only an answer tells: DeepSeek's API needs none,
/// that of Ollama does.
pub fn bases(provider: Provider, base_url: &str) -> Vec<Base> {
    let base_url = base_url.split('#').next().unwrap_or_default();
    let (place, query) = match base_url.split_once('?') {
        None => (base_url, None),
        Some((place, query)) => (place, Some(query)),
    };
    let place = without_request(provider, place.trim_end_matches('/')).trim_end_matches('/');
    let base = |place: &str, added: Option<&'static str>| {
        let added_text = added.unwrap_or_default();
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        Base { url: format!("{place}{added_text}{query}"), added }
    };
    let own = provider.base_url().unwrap_or_default();
    if own.strip_prefix(place).is_some_and(|rest| rest.starts_with('/')) {
        // The vendor's own, whose version is known.
        return vec![base(own, None)];
    }
    let path = place.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
    let last = path.and_then(|(_, path)| path.rsplit('/').next());
    let has_version = last.is_some_and(is_version);
    let mut bases = vec![base(place, None)];
    let has_version = has_version || provider == Provider::Ollama;
    bases.extend((!has_version).then(|| base(place, Some(version(provider)))));
    bases
}

/// The version of an API.
fn version(provider: Provider) -> &'static str {
    if provider == Provider::Google { "/v1beta" } else { "/v1" }
}

/// Whether a segment of a path is a version: `v1`, `v1beta`.
fn is_version(segment: &str) -> bool {
    let rest = segment.strip_prefix('v').unwrap_or_default();
    rest.starts_with(|c: char| c.is_ascii_digit())
        && rest.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// Removes the path of a request: vendors' documents show whole calls.
fn without_request(provider: Provider, place: &str) -> &str {
    match provider {
        Provider::Openai | Provider::Openrouter | Provider::Custom => {
            place.strip_suffix("/chat/completions").unwrap_or(place)
        }
        Provider::Anthropic => place.strip_suffix("/messages").unwrap_or(place),
        // Its other API, which is that of OpenAI, has a version.
        Provider::Ollama => ["/api/chat", "/api", "/v1"]
            .iter()
            .find_map(|path| place.strip_suffix(path))
            .unwrap_or(place),
        Provider::Google => {
            let place = place.strip_suffix("/models").unwrap_or(place);
            match place.rfind("/models/") {
                Some(at) if place[at..].contains(':') => &place[..at],
                _ => place,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(provider: Provider, base_url: &str) -> Vec<String> {
        bases(provider, base_url).iter().map(|base| base.join("/x")).collect()
    }

    #[test]
    fn a_base_url_is_taken_as_the_documents_of_its_vendor_give_it() {
        use Provider::{Anthropic, Custom, Google, Ollama, Openai, Openrouter};
        let google = "https://generativelanguage.googleapis.com";
        for (provider, given, url) in [
            (Openai, "https://api.openai.com", "https://api.openai.com/v1/x"),
            (Openai, "https://api.openai.com/v1/", "https://api.openai.com/v1/x"),
            (Openai, "https://api.openai.com/v1/chat/completions", "https://api.openai.com/v1/x"),
            (Anthropic, "https://api.anthropic.com", "https://api.anthropic.com/v1/x"),
            (Anthropic, "https://api.anthropic.com/v1/messages", "https://api.anthropic.com/v1/x"),
            (Openrouter, "https://openrouter.ai", "https://openrouter.ai/api/v1/x"),
            (Openrouter, "https://openrouter.ai/api/", "https://openrouter.ai/api/v1/x"),
            (Google, google, &format!("{google}/v1beta/x")),
            (Google, &format!("{google}/v1"), &format!("{google}/v1/x")),
            (
                Google,
                &format!("{google}/v1beta/models/gemini:generateContent"),
                &format!("{google}/v1beta/x"),
            ),
            (
                Google,
                &format!("{google}/v1beta/models/gemini:streamGenerateContent"),
                &format!("{google}/v1beta/x"),
            ),
            (Google, &format!("{google}/v1beta/models/"), &format!("{google}/v1beta/x")),
            (Custom, "http://localhost:11434/v1", "http://localhost:11434/v1/x"),
            (Ollama, "http://localhost:11434/", "http://localhost:11434/x"),
            (Ollama, "http://localhost:11434/api/chat", "http://localhost:11434/x"),
            (Ollama, "http://localhost:11434/v1", "http://localhost:11434/x"),
            (Ollama, "https://a.test/ollama/api/", "https://a.test/ollama/x"),
            (Custom, "https://a.test/v1?api-version=2#y", "https://a.test/v1/x?api-version=2"),
        ] {
            assert_eq!(urls(provider, given), [url], "{given}");
        }
    }

    #[test]
    fn without_a_version_both_places_are_tried_the_given_one_first() {
        use Provider::{Anthropic, Custom, Google};
        for (provider, given, first, second) in [
            (
                Custom,
                "http://localhost:11434",
                "http://localhost:11434/x",
                "http://localhost:11434/v1/x",
            ),
            (
                Custom,
                "https://a.test/openai/?v=2",
                "https://a.test/openai/x?v=2",
                "https://a.test/openai/v1/x?v=2",
            ),
            (
                Custom,
                "https://vllm.test/vllm",
                "https://vllm.test/vllm/x",
                "https://vllm.test/vllm/v1/x",
            ),
            (
                Anthropic,
                "https://gw.test/v1/acme/anthropic",
                "https://gw.test/v1/acme/anthropic/x",
                "https://gw.test/v1/acme/anthropic/v1/x",
            ),
            (Google, "https://gw.test", "https://gw.test/x", "https://gw.test/v1beta/x"),
        ] {
            assert_eq!(urls(provider, given), [first, second]);
        }
        let added = bases(Custom, "http://a.test")[1].added;
        assert_eq!(added, Some("/v1"));
    }
}
